"""Which sites a campaign reaches, with which answers alive: processes that play tapes on a woven target."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.divergence import Divergence
from ...run.process import START_SECONDS
from ...run.wire import divergence_from_json
from ...targets.scope import Scope
from ..guards.changes import Change
from ..source.sites import Map
from ..source.sources import Source
from .corpus import name_of
from .failure_groups import Diverging, Way
from .instrument import hooks_of
from .instrumented_worker import MAX_NEEDING, SCOPES
from .jobs import GRACE_SECONDS, run_jobs

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
    """A tape on which target and model part, and how."""

    scope: Scope
    tape: int
    divergence: Divergence
    way: Way

    @property
    def name(self) -> str:
        """For people; no two tapes share one."""
        return f"{name_of(self.tape)} at {self.scope}"


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
        diverging: tapes that did.
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
    diverging: Diverging = field(default_factory=Diverging)

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
        self.diverging.add(account["diverged"])

    @property
    def diverged(self) -> list[Diverged]:
        """The shortest tapes of every way, the shortest first."""
        kept = [(*tape, way) for way, tapes in self.diverging.shortest.items() for tape in tapes]
        return [
            Diverged(SCOPES[scope], tape, divergence_from_json(divergence), way)
            for _, scope, tape, divergence, way in sorted(kept, key=lambda it: (*it[:3], it[4]))
        ]


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
    for account in run_jobs("staleloc.sim.audit.play.instrumented_worker", jobs, limit):
        result.add(account)
    return result
