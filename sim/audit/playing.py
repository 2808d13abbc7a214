"""A process that plays tapes on a woven target. One job comes in on standard input, its account goes out at the end.

A target's counters are global and its classes are woven, so each job has a process of its own.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from staleloc.models.config import FEATURES, LEVELS
from staleloc.sim.audit.notes import Notes, install
from staleloc.sim.audit.weave import Hook, Weaver
from staleloc.sim.choices import seeded
from staleloc.sim.fitting import profile_of
from staleloc.sim.levels import generate_tape, play_tape
from staleloc.sim.mutate import load_changed
from staleloc.sim.scope import Scope
from staleloc.sim.targets.base import Profile
from staleloc.sim.targets.registry import parse, select_profiles
from staleloc.sim.wire import divergence_to_json

__all__ = ["SCOPES", "main"]

SCOPES = tuple(Scope(level) for level in LEVELS) + tuple(Scope(LEVELS[-1], (name,)) for name in FEATURES)
"""Everything a target may be driven at, one after the other."""

MAX_DIVERGED = 20
"""Tapes of one job that diverge and are kept."""


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
            before, self.notes.call = self.notes.call, "" if name.startswith("raw_") else name
            if name == "build":
                self.notes.restart()
                self.notes.call = ""
            try:
                return value(*args, **named)
            finally:
                self.notes.call = before

        return call


def _load(name: str, weaver: Weaver) -> Any:
    spec = parse(name)
    if spec.family == "builtin":
        return load_changed("_staleloc_woven", weaver).BuiltinEngine()
    from staleloc.sim.targets.sglang import fetch, target

    return target.load(fetch.resolve(spec.text), weaver)


def _tapes(scopes: Mapping[int, list[Profile]], job: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """``(number of the scope, number of the tape)``, every scope in turn."""
    last = job["tapes"]
    for tape in itertools.count(job["first"], job["step"]) if last is None else range(job["first"], last, job["step"]):
        for number in scopes:
            yield number, tape


def _play(job: dict[str, Any]) -> dict[str, Any]:
    notes = install()
    weaver = Weaver({module: [Hook(*hook) for hook in hooks] for module, hooks in job["hooks"].items()})
    target = _load(job["target"], weaver)
    profiles = select_profiles(target.profiles, parse(job["target"]))
    scopes = {number: drawn for number, scope in enumerate(SCOPES) if (drawn := scope.of(profiles))}
    noted = _Noted(target, notes)
    diverged: list[dict[str, Any]] = []
    played = 0
    deadline = time.monotonic() + job["seconds"] if job["seconds"] is not None else None
    for number, index in _tapes(scopes, job):
        if deadline is not None and time.monotonic() >= deadline:
            break
        before = {key: set(calls) for key, calls in notes.calls.items()}
        notes.calls.clear()
        tape = generate_tape(seeded(job["seed"], index), scopes[number])
        profile = profile_of(tape.config, scopes[number])
        assert profile is not None
        verdict = play_tape(tape, noted, profile)
        played += 1
        if verdict.divergence is not None and len(diverged) < MAX_DIVERGED:
            served = [[*key, sorted(calls)] for key, calls in sorted(notes.calls.items())]
            diverged.append(
                {
                    "scope": number,
                    "tape": index,
                    "divergence": divergence_to_json(verdict.divergence),
                    "stale": _stale_kind(tape.events, verdict.divergence.stale_at),
                    "served": served,
                }
            )
        notes.calls = {key: before.get(key, set()) | notes.calls.get(key, set()) for key in {*before, *notes.calls}}
    return {
        "tapes": played,
        "scopes": sorted(scopes),
        "woven": weaver.woven,
        "reached": [[*key, count] for key, count in sorted(notes.reached.items())],
        "alive": sorted(notes.alive.items()),
        "exposed": [[*key, count] for key, count in sorted(notes.exposed.items())],
        "served": [[*key, count] for key, count in sorted(notes.served.items())],
        "diverged": diverged,
    }


def _stale_kind(events: Any, index: int | None) -> str:
    return "" if index is None else events[index].kind


def main() -> None:
    """Do the job on standard input. The engine's own output goes to standard error."""
    import torch

    torch.set_num_threads(1)
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    answer.write(json.dumps(_play(json.load(sys.stdin))))
    answer.close()


if __name__ == "__main__":
    main()
