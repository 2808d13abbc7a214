"""Which sites a campaign reaches, with which answers alive: processes that play tapes on a woven target."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import IO, Any

from staleloc.sim.audit.playing import SCOPES
from staleloc.sim.audit.sites import Map
from staleloc.sim.audit.weave import hooks_of
from staleloc.sim.divergence import Divergence
from staleloc.sim.process import START_SECONDS
from staleloc.sim.scope import Scope
from staleloc.sim.targets.base import TargetError
from staleloc.sim.wire import divergence_from_json

__all__ = ["Budget", "Diverged", "Reach", "reach"]

GRACE_SECONDS = 60.0
"""How much longer than its budget a process may take, on top of loading its target: its last tape may be a long one."""


@dataclass(frozen=True)
class Budget:
    """How much is played.

    Attributes:
        tapes: at every level and with every feature; None for as many as `seconds` allow.
    """

    seed: int
    tapes: int | None
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
    """

    tapes: int = 0
    scopes: tuple[Scope, ...] = ()
    modules: set[str] = field(default_factory=set)
    reached: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    alive: Counter[int] = field(default_factory=Counter)
    exposed: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    served: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
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
        for it in account["diverged"]:
            served = {(site, cache): tuple(calls) for site, cache, calls in it["served"]}
            divergence = divergence_from_json(it["divergence"])
            self.diverged.append(Diverged(SCOPES[it["scope"]], it["tape"], divergence, it["stale"], served))
        self.diverged.sort(key=lambda it: (SCOPES.index(it.scope), it.tape))


def reach(target: str, found: Map, modules: dict[str, str], budget: Budget) -> Reach:
    """Play tapes on the woven target.

    Args:
        modules: path of a file -> the name under which the target imports it.

    Raises:
        TargetError: the target cannot be loaded, or a process was lost.
    """
    hooks = {modules[path]: hooks for path, hooks in hooks_of(found).items()}
    jobs = [_Job(target, hooks, budget, number) for number in range(budget.workers)]
    result = Reach()
    try:
        for job in jobs:
            result.add(job.account())
    finally:
        for job in jobs:
            job.close()
    return result


class _Job:
    """One process. Its streams are files: nobody has to read them while it runs."""

    def __init__(self, target: str, hooks: dict[str, list[Any]], budget: Budget, number: int) -> None:
        self._seconds = START_SECONDS + GRACE_SECONDS + (budget.seconds or 0.0) + 10.0 * (budget.tapes or 0)
        self._in, self._out, self._log = (tempfile.TemporaryFile() for _ in range(3))
        job = {
            "target": target,
            "hooks": hooks,
            "seed": budget.seed,
            "first": number,
            "step": budget.workers,
            "tapes": budget.tapes,
            "seconds": budget.seconds,
        }
        self._in.write(json.dumps(job).encode())
        self._in.seek(0)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "staleloc.sim.audit.playing"],
            stdin=self._in,
            stdout=self._out,
            stderr=self._log,
            start_new_session=True,
        )

    def account(self) -> dict[str, Any]:
        try:
            code = self._process.wait(self._seconds)
        except subprocess.TimeoutExpired:
            raise TargetError(f"the woven target gave no account within {self._seconds:.0f} s") from None
        if code:
            raise TargetError(f"the woven target could not be played (exit code {code}): {_last(self._log)}")
        self._out.seek(0)
        account: dict[str, Any] = json.loads(self._out.read())
        return account

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for stream in (self._in, self._out, self._log):
            stream.close()


def _last(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read()[-4096:].decode("utf-8", "replace").strip().splitlines()
    return " ".join(lines[-1].split())[:300] if lines else "it said nothing"
