"""A process that plays tapes on a woven target, or on changed ones. One job comes in on standard input, its account
goes out at the end.

A target's counters are global and its classes are woven, so each job has a process of its own; so has each changed
target, forked from one that has imported what they share.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from staleloc.models.config import FEATURES, LEVELS
from staleloc.sim.audit.changes import Dropped
from staleloc.sim.audit.notes import Notes, install
from staleloc.sim.audit.weave import Hook, Weaver
from staleloc.sim.choices import seeded
from staleloc.sim.divergence import Divergence
from staleloc.sim.fitting import profile_of
from staleloc.sim.levels import generate_tape, play_tape
from staleloc.sim.mutate import load_changed
from staleloc.sim.scope import Scope
from staleloc.sim.tape import Tape
from staleloc.sim.targets.base import Profile
from staleloc.sim.targets.registry import parse, select_profiles
from staleloc.sim.verdict import Verdict
from staleloc.sim.wire import divergence_to_json

__all__ = ["SCOPES", "main"]

SCOPES = (
    *(Scope(level) for level in LEVELS),
    *(Scope(LEVELS[-1], names) for count in (1, 2) for names in itertools.combinations(FEATURES, count)),
)
"""Everything a target may be driven at, one after the other."""

MAX_DIVERGED = 20
"""Tapes of one job that diverge and are kept."""

MAX_NEEDING = 40
"""Tapes of one job that are kept for a guard that dropped what was asked for again."""

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
            before, self.notes.call = self.notes.call, "" if name.startswith("raw_") else name
            if name == "build":
                self.notes.restart()
                self.notes.call = ""
            try:
                return value(*args, **named)
            finally:
                self.notes.call = before

        return call


def _load(name: str, transform: Callable[[str, str], str]) -> Any:
    spec = parse(name)
    if spec.family == "builtin":
        return load_changed("_staleloc_woven", transform).BuiltinEngine()
    from staleloc.sim.targets.sglang import fetch, target

    return target.load(fetch.resolve(spec.text), transform)


def _drawn(target: Any, name: str) -> dict[int, list[Profile]]:
    """Number of a scope that the target has -> the profiles it draws from."""
    profiles = select_profiles(target.profiles, parse(name))
    had = {(it.level, it.features) for it in profiles}
    return {number: it.of(profiles) for number, it in enumerate(SCOPES) if (it.level, it.features) in had}


def _one(target: Any, seed: int, profiles: list[Profile], index: int) -> tuple[Tape, Verdict]:
    tape = generate_tape(seeded(seed, index), profiles)
    profile = profile_of(tape.config, profiles)
    assert profile is not None
    return tape, play_tape(tape, target, profile)


def _rounds(scopes: Iterable[int], rounds: Iterable[int]) -> Iterator[tuple[int, int]]:
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
    target = _load(job["target"], weaver)
    scopes = _drawn(target, job["target"])
    noted = _Noted(target, notes)
    diverged: list[dict[str, Any]] = []
    needing: dict[int, list[list[int]]] = defaultdict(list)
    played = 0
    deadline = time.monotonic() + job["seconds"] if job["seconds"] is not None else None
    rounds = itertools.count(job["first"], job["step"]) if deadline else range(job["first"], job["rounds"], job["step"])
    for number, index in _rounds(scopes, rounds):
        if deadline is not None and time.monotonic() >= deadline:
            break
        notes.calls.clear()
        before = Counter(notes.needed)
        tape, verdict = _one(noted, job["seed"], scopes[number], index)
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
        elif verdict.divergence is None:
            for guard in notes.needed - before:
                if len(needing[guard]) < MAX_NEEDING:
                    needing[guard].append([number, index])
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
        "diverged": diverged,
    }


def _stale_kind(events: Any, index: int | None) -> str:
    return "" if index is None else events[index].kind


def _prove(job: dict[str, Any]) -> list[dict[str, Any]]:
    """For each changed target: what its tapes came to, each in a process of its own."""
    if parse(job["target"]).family == "builtin":
        import staleloc.sim.targets.builtin  # noqa: F401 - before the forks, with all that it imports
    return [_forked(partial(_try, job, change)) for change in job["changes"]]


def _try(job: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    started = time.monotonic()
    dropped = Dropped(change["module"], change["line"], change["column"])
    target = _load(job["target"], dropped)
    if not dropped.made:
        return {"outcome": "not made"}
    scopes = _drawn(target, job["target"])
    tapes = 0
    known = [tuple(it) for it in change["tapes"]]
    fresh = _rounds(scopes, range(FRESH, FRESH + change["fresh"]))
    for number, index in itertools.chain(known, fresh):
        if time.monotonic() - started > job["seconds"]:
            break
        tapes += 1
        _, verdict = _one(target, job["seed"], scopes[number], index)
        if verdict.divergence is not None and _is_stale(verdict.divergence):
            found = {"scope": number, "tape": index, "divergence": divergence_to_json(verdict.divergence)}
            return {"outcome": "killed", "tapes": tapes, "seconds": time.monotonic() - started, **found}
    outcome = "survived" if tapes else "never needed"
    return {"outcome": outcome, "tapes": tapes, "seconds": time.monotonic() - started}


def _is_stale(divergence: Divergence) -> bool:
    """Whether it says that an answer outlived its mapping. Another one says only that a statement was missed."""
    return divergence.kind == "stale-translation" or divergence.stale_at is not None


def _forked(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `work` comes to in a process of its own."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)
        try:
            result = work()
        except BaseException as error:
            result = {"outcome": "failed", "why": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
        with os.fdopen(into, "w", encoding="utf-8") as stream:
            json.dump(result, stream)
        os._exit(0)
    os.close(into)
    with os.fdopen(out, encoding="utf-8") as stream:
        text = stream.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"outcome": "failed", "why": "its process ended"}


def main() -> None:
    """Do the job on standard input. The engine's own output goes to standard error."""
    import torch

    torch.set_num_threads(1)
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    job = json.load(sys.stdin)
    answer.write(json.dumps(_prove(job) if "changes" in job else _play(job)))
    answer.close()


if __name__ == "__main__":
    main()
