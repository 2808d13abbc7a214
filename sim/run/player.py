"""Playing single tapes in a worker, with a new one when the target takes its process down."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..core.divergence import Divergence
from ..core.tape import Tape
from ..tapes.codec import dumps, loads
from ..targets.base import Profile, TargetError
from .process import ANSWER_SECONDS, WorkerDied, WorkerHung, WorkerProcess
from .wire import divergence_from_json

__all__ = ["Player", "Unplayable", "WorkerLost"]


class Unplayable(Exception):
    """The tape is outside the target's contract or capability; the message says how."""


class WorkerLost(TargetError):
    """Somebody killed the process, or no other could be had: nothing is known about the tape."""


class Player:
    """Plays tapes on one target. Use as a context manager.

    Attributes:
        profiles: how the target can be driven.
        stand_ins: what stands in for parts of the engine; see `WorkerProcess.stand_ins`.
        events: events of the last tape that were played.
        skipped: how many of them did not apply.
        seen: situations of the last tape.
        cpu: seconds of processor time that the worker took for the last tape; None if it gave no answer.
    """

    def __init__(self, target: str, mutant: str | None = None, answer_seconds: float = ANSWER_SECONDS) -> None:
        self._open = partial(WorkerProcess, target, mutant, answer_seconds)
        self._worker = self._open()
        self.profiles: list[Profile] = self._worker.profiles
        self.stand_ins = self._worker.stand_ins
        self.events = self.skipped = 0
        self.seen: dict[str, int] = {}
        self.cpu: float | None = None
        self._effect: str | None = None

    def play(self, tape: Tape) -> Divergence | None:
        """The divergence of a tape, or None.

        Raises:
            Unplayable: the target cannot or must not be asked to do this.
            TargetError: the harness cannot drive this target.
            WorkerLost: somebody else killed its process.
        """
        self.events, self.skipped, self.seen, self._effect, self.cpu = 0, 0, {}, None, None
        try:
            rows = len(tape.events) * tape.config.full_size
            answer: dict[str, Any] = self._worker.play(dumps(tape), rows)
        except WorkerHung as error:
            return self._lost("hang", str(error))
        except WorkerDied as error:
            if error.code == -9:
                self._renew()
                raise WorkerLost(f"{error}: out of memory?") from None
            return self._lost("crash", str(error))
        except TargetError:
            self._renew()
            raise
        if "illegal" in answer:
            raise Unplayable(answer["illegal"])
        self.events, self.skipped, self.seen = answer["events"], answer["skipped"], answer["seen"]
        self._effect, self.cpu = answer["effect"], answer["cpu"]
        return divergence_from_json(answer["divergence"]) if answer["divergence"] else None

    def effect(self) -> Tape | None:
        """The last tape as it took effect, or None if all of it did."""
        return None if self._effect is None else loads(self._effect)

    def close(self) -> None:
        """End the worker."""
        self._worker.close()

    def __enter__(self) -> Player:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _lost(self, kind: str, what: str) -> Divergence:
        self._renew()
        return Divergence(kind, kind, -1, what)

    def _renew(self) -> None:
        self._worker.close()
        try:
            self._worker = self._open()
        except TargetError as error:
            raise WorkerLost(str(error)) from None
