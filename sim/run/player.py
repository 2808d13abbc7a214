"""PLAYER"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from ..core.divergence import Divergence
from ..core.tape import Tape
from ..parts.adapt import fitted, profile_of
from ..parts.events_file import another_file
from ..tapes.codec import TapeError, dumps, load, loads
from ..tapes.scenarios import find_scenario, scenarios
from ..targets.base import Profile, TargetError
from .process import ANSWER_SECONDS, WorkerDied, WorkerHung, WorkerProcess
from .protocol import divergence_from_json

__all__ = ["Player", "Replayed", "Unplayable", "WorkerLost", "adapt", "find_tape", "is_scenario", "origin_of", "replay"]


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


def is_scenario(name: str) -> bool:
    """Whether a name is that of a packaged scenario, if of anything, and not of a file."""
    return not Path(name).exists() and "/" not in name


def find_tape(name: str) -> Tape:
    """The tape of a file, or else the packaged scenario of that name.

    Raises:
        TapeError: there is no such tape, or it is none.
    """
    if not is_scenario(name):
        return load(name)
    scenario = find_scenario(name)
    if scenario is None:
        close = get_close_matches(name, [it.name for it in scenarios()], n=1)
        hint = f"did you mean {close[0]}?" if close else "see: staleloc scenarios list"
        raise TapeError(f"{name}: no such file, and no scenario of that name; {hint}")
    return scenario.tape


def origin_of(tape: Tape) -> tuple[str, str | None]:
    """The target and the mutant that the tape was found on; the builtin and none if it does not say."""
    known = tape.provenance or {}
    target, mutant = known.get("target"), known.get("mutant")
    return (target if isinstance(target, str) else "builtin"), (mutant if isinstance(mutant, str) else None)


def adapt(tape: Tape, profiles: Sequence[Profile]) -> tuple[Tape, list[str]]:
    """The tape with policy and dtype that the target has, and a line for each that was changed; see `fitted`."""
    profile = profile_of(tape.config, profiles)
    if profile is None:
        return tape, []
    config, notes = fitted(tape.config, profile)
    return replace(tape, config=config), notes


@dataclass(frozen=True)
class Replayed:
    """What replays of a tape showed.

    Attributes:
        tape: the tape as it was played.
        divergence: that of the first replay in which there was one, or None.
        verdicts: how often each divergence (None for none) was the outcome.
        events: events played, all replays together.
        skipped: how many of them did not apply.
        notes: what was changed to play the tape.
        profiles: how the target can be driven.
    """

    tape: Tape
    divergence: Divergence | None
    verdicts: Counter[Divergence | None]
    events: int
    skipped: int
    seen: Counter[str]
    seconds: float
    notes: list[str]
    profiles: list[Profile]


def replay(tape: Tape, target: str, mutant: str | None = None, times: int = 1) -> Replayed:
    """Play a tape.

    Raises:
        TargetError: the target cannot be loaded or driven.
        Unplayable: the tape is outside the target's contract or capability.
    """
    verdicts: Counter[Divergence | None] = Counter()
    seen: Counter[str] = Counter()
    events = skipped = 0
    with Player(target, mutant) as player:
        fitted, notes = adapt(tape, player.profiles)
        if (other := another_file(tape.events, tape.provenance)) is not None:
            notes = [*notes, other]
        started = time.monotonic()
        for _ in range(times):
            verdicts[player.play(fitted)] += 1
            events += player.events
            skipped += player.skipped
            seen.update(player.seen)
        seconds = time.monotonic() - started
        profiles = player.profiles
    divergence = next((outcome for outcome in verdicts if outcome is not None), None)
    return Replayed(fitted, divergence, verdicts, events, skipped, seen, seconds, notes, profiles)
