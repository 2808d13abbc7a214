"""Which sites a campaign reaches, with which answers alive: processes that play tapes on a woven target."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from staleloc.sim.audit.changes import Change
from staleloc.sim.audit.playing import SCOPES
from staleloc.sim.audit.sites import Map
from staleloc.sim.audit.weave import hooks_of
from staleloc.sim.divergence import Divergence
from staleloc.sim.process import START_SECONDS
from staleloc.sim.scope import Scope
from staleloc.sim.targets.base import TargetError
from staleloc.sim.wire import divergence_from_json

__all__ = ["Budget", "Diverged", "Proof", "Reach", "prove", "reach"]

CHANGE_SECONDS = 30.0
"""How long the tapes of one changed target may take."""

MAX_TRIED = 60
"""Tapes that needed a guard and are played again without it, and"""

MAX_FRESH = 200
"""rounds of new ones, where no tape has shown a divergence with all guards in place."""

GRACE_SECONDS = 60.0
"""How much longer than its budget a process may take, on top of loading its target: its last tape may be a long one."""


@dataclass(frozen=True)
class Budget:
    """How much is played.

    Attributes:
        rounds: each has tapes of every level and with every feature; None for as many as `seconds` allow.
    """

    seed: int
    rounds: int | None
    seconds: float | None
    workers: int


@dataclass(frozen=True)
class Diverged:
    """A tape on which target and model part.

    Attributes:
        stale: kind of the event that made an answer wrong; ``""`` if that cannot be told.
        served: ``(site, cache)`` -> calls in which the site changed the mapping under an answer that was then served.
    """

    scope: Scope
    tape: int
    divergence: Divergence
    stale: str
    served: dict[tuple[int, int], tuple[str, ...]]


@dataclass
class Reach:
    """What was counted; sites and caches have the numbers that they have in the map.

    Attributes:
        scopes: levels and features that were played.
        modules: modules of the target that were loaded and woven.
        reached: site -> call -> how often.
        alive: site -> how often an answer was alive then.
        exposed: site -> cache -> how often that was asked again afterwards.
        served: site -> cache -> how often it still had the answer from before.
        needed: guard -> how often an answer that it dropped was asked for again.
        needing: guard -> some tapes in which it was, without a divergence: the numbers of their scope and their own.
    """

    tapes: int = 0
    scopes: tuple[Scope, ...] = ()
    modules: set[str] = field(default_factory=set)
    reached: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    alive: Counter[int] = field(default_factory=Counter)
    exposed: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    served: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    needed: Counter[int] = field(default_factory=Counter)
    needing: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    diverged: list[Diverged] = field(default_factory=list)

    def add(self, account: dict[str, Any]) -> None:
        """Count what one process has counted."""
        self.tapes += account["tapes"]
        self.scopes = tuple(SCOPES[number] for number in account["scopes"])
        self.modules.update(account["woven"])
        for site, call, count in account["reached"]:
            self.reached[site][call] += count
        for site, count in account["alive"]:
            self.alive[site] += count
        for counts, name in ((self.exposed, "exposed"), (self.served, "served")):
            for site, cache, count in account[name]:
                counts[site][cache] += count
        self.needed.update(dict(account["needed"]))
        for guard, tapes in account["needing"]:
            self.needing[guard] += [(scope, tape) for scope, tape in tapes]
        for it in account["diverged"]:
            served = {(site, cache): tuple(calls) for site, cache, calls in it["served"]}
            divergence = divergence_from_json(it["divergence"])
            self.diverged.append(Diverged(SCOPES[it["scope"]], it["tape"], divergence, it["stale"], served))
        self.diverged.sort(key=lambda it: (SCOPES.index(it.scope), it.tape))


@dataclass(frozen=True)
class Proof:
    """What came of taking a guard away.

    Attributes:
        outcome: ``"killed"`` (a tape diverges), ``"survived"``, ``"never needed"`` (no tape could show it),
            ``"not made"`` (the statement cannot go, or its module is not loaded) or ``"failed"``.
        tapes: how many were played.
        why: of a failure, in one line.
    """

    outcome: str
    tapes: int = 0
    seconds: float = 0.0
    scope: Scope | None = None
    tape: int | None = None
    divergence: Divergence | None = None
    why: str = ""

    @classmethod
    def of(cls, account: dict[str, Any]) -> Proof:
        """From what a process says."""
        if account["outcome"] != "killed":
            return cls(**account)
        scope, divergence = SCOPES[account["scope"]], divergence_from_json(account["divergence"])
        return cls(**{**account, "scope": scope, "divergence": divergence})


def reach(target: str, found: Map, changes: Sequence[Change], modules: dict[str, str], budget: Budget) -> Reach:
    """Play tapes on the woven target.

    Args:
        modules: path of a file -> the name under which the target imports it.

    Raises:
        TargetError: the target cannot be loaded, or a process was lost.
    """
    hooks = {modules[path]: hooks for path, hooks in hooks_of(found, changes).items()}
    common = {"target": target, "hooks": hooks, "seed": budget.seed, "rounds": budget.rounds, "seconds": budget.seconds}
    limit = START_SECONDS + GRACE_SECONDS + (budget.seconds or 0.0) + 10.0 * (budget.rounds or 0)
    result = Reach()
    for account in _run([{**common, "first": it, "step": budget.workers} for it in range(budget.workers)], limit):
        result.add(account)
    return result


def prove(
    target: str,
    changes: Sequence[Change],
    modules: dict[str, str],
    reached: Reach,
    budget: Budget,
    known: Container[str] = (),
) -> list[Proof]:
    """Take the guards away, one at a time, and play the tapes that needed them, then new ones; in the same order.

    Args:
        known: names of changes that nothing can notice; no new tapes are spent on them.

    Raises:
        TargetError: a process was lost.
    """
    if not changes:
        return []
    # On a release that diverges anyway a new tape says nothing of a guard.
    fresh = 0 if reached.diverged else MAX_FRESH
    jobs: list[dict[str, Any]] = [
        {"target": target, "seed": budget.seed, "seconds": CHANGE_SECONDS, "changes": []} for _ in range(budget.workers)
    ]
    for number, change in enumerate(changes):
        spot = change.spot
        jobs[number % budget.workers]["changes"].append(
            {
                "module": modules[spot.path],
                "line": spot.line,
                "column": spot.column,
                "tapes": reached.needing[number][:MAX_TRIED],
                "fresh": fresh if change.name not in known and _was_exposed(change, reached) else 0,
            }
        )
    limit = START_SECONDS + GRACE_SECONDS * len(changes)
    accounts = _run([job for job in jobs if job["changes"]], limit)
    return [Proof.of(accounts[number % budget.workers][number // budget.workers]) for number in range(len(changes))]


def _was_exposed(change: Change, reached: Reach) -> bool:
    """Whether any of its sites was exposed to any of its caches: without that, new tapes would be in vain, too."""
    return any(reached.exposed[site][cache] for site in change.sites for cache in change.caches)


def _run(jobs: Sequence[dict[str, Any]], limit: float) -> list[Any]:
    """What processes come to, one for each job."""
    running = [_Job(job, limit) for job in jobs]
    try:
        return [job.account() for job in running]
    finally:
        for job in running:
            job.close()


class _Job:
    """One process. Its streams are files: nobody has to read them while it runs."""

    def __init__(self, job: dict[str, Any], limit: float) -> None:
        self._seconds = limit
        self._in, self._out, self._log = (tempfile.TemporaryFile() for _ in range(3))  # noqa: SIM115 - see `close`
        self._in.write(json.dumps(job).encode())
        self._in.seek(0)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "staleloc.sim.audit.playing"],
            stdin=self._in,
            stdout=self._out,
            stderr=self._log,
            start_new_session=True,
        )

    def account(self) -> Any:
        try:
            code = self._process.wait(self._seconds)
        except subprocess.TimeoutExpired:
            raise TargetError(f"the woven target gave no account within {self._seconds:.0f} s") from None
        if code:
            raise TargetError(f"the woven target could not be played (exit code {code}): {_last(self._log)}")
        self._out.seek(0)
        return json.loads(self._out.read())

    def close(self) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for stream in (self._in, self._out, self._log):
            stream.close()


def _last(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read()[-4096:].decode("utf-8", "replace").strip().splitlines()
    return " ".join(lines[-1].split())[:300] if lines else "it said nothing"
