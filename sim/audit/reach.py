"""Which sites a campaign reaches, with which answers alive: processes that play tapes on a woven target."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from staleloc.models.config import LEVELS
from staleloc.sim.audit.changes import Change
from staleloc.sim.audit.jobs import GRACE_SECONDS, run_jobs
from staleloc.sim.audit.playing import MAX_DIVERGED, MAX_NEEDING, SCOPES, SHORT_TAPES
from staleloc.sim.audit.sites import Map
from staleloc.sim.audit.sources import Source
from staleloc.sim.audit.weave import hooks_of
from staleloc.sim.divergence import Divergence
from staleloc.sim.process import START_SECONDS
from staleloc.sim.scope import Scope
from staleloc.sim.wire import divergence_from_json

__all__ = ["Budget", "Diverged", "Reach", "reach"]


@dataclass(frozen=True)
class Budget:
    """How much is played.

    Attributes:
        rounds: each has tapes of every level and with every feature; None for as many as `seconds` allow.
        each: seconds of processor time for the tapes of one changed target.
    """

    seed: int
    rounds: int | None
    seconds: float | None
    workers: int
    each: float


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
        needing: guard -> the shortest tapes in which it was, or that came to it if it is no invalidation, and did not
            diverge: number of events, of the scope, of the tape.
    """

    tapes: int = 0
    scopes: tuple[Scope, ...] = ()
    modules: set[str] = field(default_factory=set)
    reached: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    alive: Counter[int] = field(default_factory=Counter)
    exposed: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    served: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    needed: Counter[int] = field(default_factory=Counter)
    needing: dict[int, list[tuple[int, int, int]]] = field(default_factory=lambda: defaultdict(list))
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
            merged = sorted([*self.needing[guard], *((length, scope, tape) for length, scope, tape in tapes)])
            self.needing[guard] = merged[:MAX_NEEDING]
        for it in account["diverged"]:
            served = {(site, cache): tuple(calls) for site, cache, calls in it["served"]}
            divergence = divergence_from_json(it["divergence"])
            self.diverged.append(Diverged(SCOPES[it["scope"]], it["tape"], divergence, it["stale"], served))
        # In the order in which one process plays them, so that the same ones stay however many play.
        self.diverged = sorted(self.diverged, key=_turn)[:MAX_DIVERGED]


def _turn(it: Diverged) -> tuple[int, int, int]:
    short = it.scope.level == LEVELS[0]
    return max(-1, it.tape // SHORT_TAPES if short else it.tape), SCOPES.index(it.scope), it.tape


def reach(target: str, found: Map, changes: Sequence[Change], sources: dict[str, Source], budget: Budget) -> Reach:
    """Play tapes on the woven target.

    Args:
        sources: path of a file -> its source.

    Raises:
        TargetError: the target cannot be loaded, or a process was lost.
    """
    hooks = {sources[path].module: hooks for path, hooks in hooks_of(found, changes).items()}
    common = {"target": target, "hooks": hooks, "seed": budget.seed, "rounds": budget.rounds, "seconds": budget.seconds}
    limit = START_SECONDS + GRACE_SECONDS + (budget.seconds or 0.0) + 10.0 * (budget.rounds or 0)
    result = Reach()
    jobs = [{**common, "first": it, "step": budget.workers} for it in range(budget.workers)]
    for account in run_jobs("staleloc.sim.audit.playing", jobs, limit):
        result.add(account)
    return result
