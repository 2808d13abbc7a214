"""Plays single tapes in a worker, and finds and adapts tapes that a user names."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import Any

from ...models.config import LEVELS
from ..core.divergence import Divergence
from ..core.tape import Tape
from ..parts.events_file import another_file
from ..parts.legality import fitted, profile_of
from ..tapes.codec import TapeError, dumps, load, loads
from ..tapes.scenarios import find_scenario, scenarios
from ..targets.base import Profile, TargetError
from ..targets.registry import is_shipped
from .messages import divergence_from_json
from .process import ANSWER_SECONDS, WorkerDied, WorkerHung, WorkerProcess, WorkerSilent

__all__ = ["Player", "Replayed", "Unplayable", "WorkerLost", "adapt", "find_tape", "is_scenario", "origin_of", "replay"]


class Unplayable(Exception):
    """The tape is outside the target's contract or capability; the message says why."""


class WorkerLost(TargetError):
    """The process was killed from outside, or no new one could be started: nothing is known about the tape."""


class Player:
    """Plays tapes on one target, with a new worker when the target ends the old one. Use as a context manager.

    Args:
        answer_seconds: processor time for a tape.
        sure: a hang counts only if the tape hangs again in a fresh process.

    Attributes:
        profiles: how the target can be driven.
        stand_ins: test doubles for parts of the engine; see `WorkerProcess.stand_ins`.
        events: events of the last tape that were played.
        skipped: events of the last tape that did not apply.
        seen: situations of the last tape.
        cpu: seconds of processor time that the worker took for the last tape; None if it gave no answer.
    """

    def __init__(
        self,
        target: str,
        mutant: str | None = None,
        answer_seconds: float = ANSWER_SECONDS,
        *,
        sure: bool = True,
        worker: Callable[[str, str | None, float], WorkerProcess] | None = None,
    ) -> None:
        self._open = partial(worker or WorkerProcess, target, mutant, answer_seconds)
        self._sure = sure
        self._worker = self._open()
        self.profiles: list[Profile] = self._worker.profiles
        self.stand_ins = self._worker.stand_ins
        self.events = self.skipped = 0
        self.seen: dict[str, int] = {}
        self.cpu: float | None = None
        self._effect: str | None = None

    def play(self, tape: Tape) -> Divergence | None:
        """Return the divergence of a tape, or None.

        Raises:
            Unplayable: the tape is outside the target's contract or capability.
            TargetError: the harness cannot drive this target.
            WorkerLost: the process was killed from outside, or it did not answer twice.
        """
        try:
            found = self._play(tape)
        except WorkerSilent:
            return self._last_play(tape)
        if found is None or found.kind != "hang" or not self._sure:
            return found
        if found.event >= 0:
            self._renew()
        return self._last_play(tape)

    def _last_play(self, tape: Tape) -> Divergence | None:
        try:
            return self._play(tape)
        except WorkerSilent as error:
            raise WorkerLost(f"{error}, twice: was it stopped, or does it wait?") from None

    def _play(self, tape: Tape) -> Divergence | None:
        self.events, self.skipped, self.seen, self._effect, self.cpu = 0, 0, {}, None, None
        try:
            rows = len(tape.events) * tape.config.full_size
            answer: dict[str, Any] = self._worker.play(dumps(tape), rows)
        except WorkerHung as error:
            return self._lost("hang", str(error))
        except WorkerSilent:
            self._renew()
            raise
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

    def located(self, tape: Tape, divergence: Divergence) -> Divergence:
        """Return a tape's divergence with the place that made the state wrong and with its consequences, as far as they
        can be known."""
        if divergence.calls or divergence.event < 0 or tape.config.level == LEVELS[0]:
            return divergence
        try:
            return self._worker.locate(dumps(tape), divergence)
        except (WorkerHung, WorkerDied, WorkerSilent, TargetError):
            self._renew()
            return divergence

    def effect(self) -> Tape | None:
        """Return the part of the last tape that took effect, or None if that is all of it."""
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
        self._worker.end()
        try:
            self._worker = self._open()
        except TargetError as error:
            raise WorkerLost(str(error)) from None


def is_scenario(name: str) -> bool:
    """Return whether a name can only be that of a packaged scenario, not of a file."""
    return "/" not in name and not os.path.exists(name)  # False also for a name that no file can have


def find_tape(name: str) -> Tape:
    """Return the tape of a file, or else the packaged scenario of that name.

    Raises:
        TapeError: there is no such tape, or the file holds none.
    """
    if not is_scenario(name):
        return load(name)
    scenario = find_scenario(name)
    if scenario is None:
        close = get_close_matches(name, [it.name for it in scenarios()], n=1)
        hint = f"did you mean {close[0]}?" if close else "see: staleloc scenarios list"
        raise TapeError(f"{name}: no such file, and no scenario of that name; {hint}")
    return scenario.tape


def origin_of(tape: Tape, name: str) -> tuple[str, str | None]:
    """Return the target and the mutant on which the tape was found; builtin and None if the tape does not say.

    A tape's file is data, and may come from anyone: it chooses only code that comes along. What lies in a folder or
    is fetched must be named by the user. A packaged scenario comes along, too.

    Raises:
        Unplayable: the tape names other code.
    """
    known = tape.provenance or {}
    target, mutant = known.get("target", "builtin"), known.get("mutant")
    if not isinstance(target, str):
        raise Unplayable(f"{name} does not say on which target it was found; add --target TARGET")
    if not is_shipped(target) and not is_scenario(name):
        raise Unplayable(
            f"{name} was found on {target!r}, and a tape does not choose code that is fetched or lies in a folder; "
            "if you trust it, name it with --target"
        )
    return target, (mutant if isinstance(mutant, str) else None)


def adapt(tape: Tape, profiles: Sequence[Profile]) -> tuple[Tape, list[str]]:
    """Return the tape with a policy and dtype that the target has, and one line for each change; see `fitted`."""
    profile = profile_of(tape.config, profiles)
    if profile is None:
        return tape, []
    config, notes = fitted(tape.config, profile)
    return replace(tape, config=config), notes


@dataclass(frozen=True)
class Replayed:
    """The results of replays of one tape.

    Attributes:
        tape: the tape as it was played.
        divergence: the first divergence, or None.
        verdicts: how often each divergence (None for none) was the result.
        events: events that were played, in all replays together.
        skipped: how many of them did not apply.
        notes: the changes that made the tape playable.
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
    """Play a tape several times.

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
        if divergence is not None:
            divergence = player.located(fitted, divergence)
    return Replayed(fitted, divergence, verdicts, events, skipped, seen, seconds, notes, profiles)
