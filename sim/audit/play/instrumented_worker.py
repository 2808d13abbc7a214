"""A process that plays tapes on a woven target. One job comes in on standard input, its account goes out at the end.

A target's counters are global and its classes are woven, so each job has a process of its own.
"""

from __future__ import annotations

import itertools
import time
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ....models.config import FEATURES, LEVELS
from ...core.tape import Tape
from ...core.verdict import Verdict
from ...parts.adapt import profile_of
from ...parts.drive import play_tape
from ...parts.hooks import check_drawn, declared, fingerprint, watched
from ...targets.base import Profile, TargetError
from ...targets.registry import parse, select_profiles
from ...targets.scope import Scope
from .corpus import known_tapes, tape_of
from .failure_groups import Diverging, Way
from .instrument import Hook, Weaver
from .job_process import do_job
from .notes import Notes, install

__all__ = ["FRESH", "MAX_NEEDING", "SCOPES", "drawn", "load", "one", "rounds_of"]

SCOPES = (
    *(Scope(level) for level in LEVELS),
    *(Scope(LEVELS[-1], names) for count in (1, 2) for names in itertools.combinations(FEATURES, count)),
)
"""Everything a target may be driven at, one after the other."""

MAX_NEEDING = 40
"""Tapes, the shortest, that are kept for a guard: they came to it or, if it is an invalidation, they asked again for
what it dropped."""

SHORT_TAPES = 8
"""Tapes of single calls that are played in the time of one of whole requests."""

FRESH = 1_000_000
"""Number of the first round that no job has played before."""


@dataclass
class _Noted:
    """A target whose calls are noted, but for those that only look."""

    target: Any
    notes: Notes

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.target, name)
        if not callable(value):
            return value

        def call(*args: Any, **named: Any) -> Any:
            called = args[0] if name == "declared" else name
            before, self.notes.call = self.notes.call, "" if name.startswith("raw_") else called
            if name == "build":
                self.notes.restart()
                self.notes.call = ""
            try:
                return value(*args, **named)
            finally:
                self.notes.call = before

        return call


def load(name: str, transform: Callable[[str, str], str] | None) -> Any:
    """A target, its sources rewritten."""
    spec = parse(name)
    return spec.family.load_audited(spec, transform)


def drawn(target: Any, name: str) -> dict[int, list[Profile]]:
    """Number of a scope that the target has -> the profiles it draws from."""
    profiles = select_profiles(target.profiles, parse(name))
    had = {(it.level, it.features) for it in profiles}
    return {number: it.of(profiles) for number, it in enumerate(SCOPES) if (it.level, it.features) in had}


def one(target: Any, seed: int, profiles: list[Profile], index: int) -> tuple[Tape, Verdict]:
    """A tape and what came of it.

    Raises:
        DeclaredError: the user's file does not draw the same tape twice.
    """
    with watched():
        tape = tape_of(profiles, seed, index)
        if declared():
            check_drawn(tape_of(profiles, seed, index), fingerprint(tape))
    profile = profile_of(tape.config, profiles)
    assert profile is not None
    return tape, play_tape(tape, target, profile)


def _known(scopes: dict[int, list[Profile]], name: str) -> list[tuple[int, int]]:
    """``(number of the scope, number of the tape)`` of known tapes that the target can play."""
    profiles = [profile for drawn in scopes.values() for profile in drawn]
    numbers = {SCOPES[number]: number for number in scopes}
    known = ((Scope(tape.config.level, tape.config.features), index) for index, tape in known_tapes(profiles, name))
    return [(numbers[scope], index) for scope, index in known if scope in numbers]


def rounds_of(scopes: Iterable[int], rounds: Iterable[int]) -> Iterator[tuple[int, int]]:
    """``(number of the scope, number of the tape)``, every scope in turn; tapes of single calls are short, and many."""
    for number in rounds:
        for scope in scopes:
            if SCOPES[scope].level == LEVELS[0]:
                yield from ((scope, number * SHORT_TAPES + it) for it in range(SHORT_TAPES))
            else:
                yield scope, number


def _play(job: dict[str, Any]) -> dict[str, Any]:
    notes = install()
    weaver = Weaver({module: [Hook(*hook) for hook in hooks] for module, hooks in job["hooks"].items()})
    target = load(job["target"], weaver)
    scopes = drawn(target, job["target"])
    noted = _Noted(target, notes)
    diverging = Diverging()
    needing: dict[int, list[list[int]]] = defaultdict(list)
    played = 0
    deadline = time.monotonic() + job["seconds"] if job["seconds"] is not None else None
    rounds = itertools.count(job["first"], job["step"]) if deadline else range(job["first"], job["rounds"], job["step"])
    known = _known(scopes, job["target"]) if job["first"] == 0 else []
    for number, index in itertools.chain(known, rounds_of(scopes, rounds)):
        if deadline is not None and time.monotonic() >= deadline:
            break
        before = Counter(notes.needed)
        try:
            tape, verdict = one(noted, job["seed"], scopes[number], index)
        except TargetError:  # an adapter may find out only then that a release lacks what a known tape wants
            if index >= 0:
                raise
            continue
        played += 1
        if verdict.divergence is not None:
            diverging.note(
                Way.of(verdict.divergence, tape.events, notes.late, notes.changed), number, index, verdict.divergence
            )
            continue
        for guard in {*(notes.needed - before), *notes.passed}:
            _keep(needing[guard], [len(tape.events), number, index])
    return {
        "tapes": played,
        "scopes": sorted(scopes),
        "woven": weaver.woven,
        "reached": [[*key, count] for key, count in sorted(notes.reached.items())],
        "alive": sorted(notes.alive.items()),
        "exposed": [[*key, count] for key, count in sorted(notes.exposed.items())],
        "served": [[*key, count] for key, count in sorted(notes.served.items())],
        "needed": sorted(notes.needed.items()),
        "needing": sorted(needing.items()),
        "diverged": diverging.to_json(),
    }


def _keep(shortest: list[list[int]], tape: list[int]) -> None:
    """One more tape, if it is among the shortest."""
    if len(shortest) < MAX_NEEDING or tape < shortest[-1]:
        insort(shortest, tape)
        del shortest[MAX_NEEDING:]


if __name__ == "__main__":
    do_job(_play)
