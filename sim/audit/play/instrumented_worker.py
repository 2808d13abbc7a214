"""The worker that plays tapes on an instrumented target and counts what they reach.

The counters are global and the target's classes are rewritten, so each job has a process of its own.
"""

from __future__ import annotations

import itertools
import time
from bisect import insort
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from ...targets.base import Profile, Scope, TargetError
from .corpus import SCOPES, known_tapes, load_target, play_one, profiles_by_scope, random_tapes
from .coverage import MAX_NEEDING, FailureGroup, FailureGroups
from .instrument import Counters, Hook, Instrumenter, install
from .jobs import serve_job


@dataclass
class _CountedTarget:
    """A target that tells the counters which of its calls is under way. Reads of raw state are not counted."""

    target: Any
    counters: Counters

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.target, name)
        if not callable(value):
            return value

        def call(*args: Any, **named: Any) -> Any:
            called = args[0] if name == "declared" else name
            before, self.counters.call = self.counters.call, "" if name.startswith("raw_") else called
            if name == "build":
                self.counters.restart()
                self.counters.call = ""
            try:
                return value(*args, **named)
            finally:
                self.counters.call = before

        return call


def _play(job: dict[str, Any]) -> dict[str, Any]:
    counters = install()
    instrumenter = Instrumenter({module: [Hook(*hook) for hook in hooks] for module, hooks in job["hooks"].items()})
    target = load_target(job["target"], instrumenter)
    scopes = profiles_by_scope(target, job["target"])
    counted = _CountedTarget(target, counters)
    failures = FailureGroups()
    needing: dict[int, list[list[int]]] = defaultdict(list)
    played = 0
    deadline = time.monotonic() + job["seconds"] if job["seconds"] is not None else None
    rounds = itertools.count(job["first"], job["step"]) if deadline else range(job["first"], job["rounds"], job["step"])
    known = _known(scopes, job["target"]) if job["first"] == 0 else []
    for number, index in itertools.chain(known, random_tapes(scopes, rounds)):
        if deadline is not None and time.monotonic() >= deadline:
            break
        before = Counter(counters.needed)
        try:
            tape, verdict = play_one(counted, job["seed"], scopes[number], index)
        except TargetError:  # an adapter may learn only during play that a release lacks what a known tape needs
            if index >= 0:
                raise
            continue
        played += 1
        if verdict.divergence is not None:
            group = FailureGroup.of(verdict.divergence, tape.events, counters.late, counters.changed)
            failures.note(group, number, index, verdict.divergence)
            continue
        for guard in {*(counters.needed - before), *counters.passed}:
            _keep(needing[guard], [len(tape.events), number, index])
    return {
        "tapes": played,
        "scopes": sorted(scopes),
        "instrumented": instrumenter.placed,
        "reached": [[*key, count] for key, count in sorted(counters.reached.items())],
        "alive": sorted(counters.alive.items()),
        "exposed": [[*key, count] for key, count in sorted(counters.exposed.items())],
        "served": [[*key, count] for key, count in sorted(counters.served.items())],
        "needed": sorted(counters.needed.items()),
        "needing": sorted(needing.items()),
        "failures": failures.to_json(),
    }


def _known(scopes: dict[int, list[Profile]], name: str) -> list[tuple[int, int]]:
    """Return ``(number of the scope, number of the tape)`` of known tapes that the target can play."""
    profiles = [profile for drawn in scopes.values() for profile in drawn]
    numbers = {SCOPES[number]: number for number in scopes}
    known = ((Scope(tape.config.level, tape.config.features), index) for index, tape in known_tapes(profiles, name))
    return [(numbers[scope], index) for scope, index in known if scope in numbers]


def _keep(shortest: list[list[int]], tape: list[int]) -> None:
    """Add a tape if it is among the shortest."""
    if len(shortest) < MAX_NEEDING or tape < shortest[-1]:
        insort(shortest, tape)
        del shortest[MAX_NEEDING:]


if __name__ == "__main__":
    serve_job(_play)
