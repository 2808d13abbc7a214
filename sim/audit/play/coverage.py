"""Coverage: which sites tapes reach on an instrumented target, with which cached translations alive, and which fail.

A tape *fails* if target and model diverge on it. Failing tapes fall into groups; the shortest of each group are kept.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import astuple, dataclass, field
from typing import Any

from ...core.divergence import Divergence
from ...core.event import Event
from ...run.messages import divergence_from_json, divergence_to_json
from ...run.process import START_SECONDS
from ...targets.base import Scope
from ..guards import Change
from ..source.program import Source
from ..source.sites import Map
from .corpus import SCOPES, name_of
from .instrument import hooks_of
from .jobs import GRACE_SECONDS, run_jobs

__all__ = [
    "MAX_NEEDING", "UNKNOWN_CACHE", "AuditBudget", "Coverage", "FailingTape", "FailureGroup", "FailureGroups",
    "measure_coverage",
]  # fmt: skip

MAX_NEEDING = 40
"""Shortest tapes that are kept for a guard. They reached it or, for an invalidation, read again what it had dropped."""

MAX_KEPT = 3
"""Shortest tapes that are kept of each group."""

UNKNOWN_CACHE = -1
"""Number of a cache that was not found in the source."""


@dataclass(frozen=True)
class AuditBudget:
    """The amount of play.

    Attributes:
        rounds: number of rounds, each with tapes of every scope; None for as many as `seconds` allow.
        each: seconds of processor time for the tapes of one changed target.
    """

    seed: int
    rounds: int | None
    seconds: float | None
    workers: int
    each: float


@dataclass(frozen=True, order=True)
class FailureGroup:
    """Properties that failing tapes share.

    Attributes:
        kind: kind of the divergence.
        asked: kind of the event that shows it.
        stale: kind of the event that made a cached translation wrong; ``""`` if that is not known.
        blamed: ``(site, cache)``: in the event `stale` the site changed the mapping, and the cache served the
            translation from before.
        doubted: ``(site, cache)`` that can be neither blamed nor cleared. These are other late reads: those of the
            event that shows the divergence, or of any event if `stale` is not known. With `UNKNOWN_CACHE` they are
            the sites of the event `stale`, or of the one that shows the divergence if `stale` is not known.
    """

    kind: str
    asked: str
    stale: str
    blamed: tuple[tuple[int, int], ...]
    doubted: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(
        cls,
        divergence: Divergence,
        events: tuple[Event, ...],
        late: Mapping[tuple[int, int], Set[tuple[int, int]]],
        changed: Mapping[int, Set[int]],
    ) -> FailureGroup:
        """Return the group of a tape.

        Args:
            late: ``(site, cache)`` -> pairs of events: in the first the site changed the mapping under a cached
                translation, in the second that was served.
            changed: event -> sites that were reached in it.
        """
        shown, at = divergence.event, divergence.stale_at
        asked = events[shown].kind if shown < len(events) else ""
        if at is None:
            here = [(site, UNKNOWN_CACHE) for site in changed.get(shown, ())]
            return cls(divergence.kind, asked, "", (), tuple(sorted([*late, *here])))
        stale = events[at].kind
        blamed = sorted(key for key, times in late.items() if any(made == at for made, _ in times))
        if blamed:
            return cls(divergence.kind, asked, stale, tuple(blamed))
        others = sorted(key for key, times in late.items() if any(served == shown for _, served in times))
        here = [(site, UNKNOWN_CACHE) for site in sorted(changed.get(at, ()))]
        return cls(divergence.kind, asked, stale, (), tuple(others or here))


@dataclass
class FailureGroups:
    """Failing tapes by group. No group is lost, however many tapes another one has.

    Attributes:
        counts: failing tapes of each group.
        shortest: group -> events up to the divergence, number of the scope, of the tape, and the divergence as JSON.
    """

    counts: Counter[FailureGroup] = field(default_factory=Counter)
    shortest: dict[FailureGroup, list[tuple[int, int, int, dict[str, Any]]]] = field(default_factory=dict)

    def note(self, group: FailureGroup, scope: int, tape: int, divergence: Divergence) -> None:
        """Add a tape."""
        self.counts[group] += 1
        self._keep(group, (divergence.event, scope, tape, divergence_to_json(divergence)))

    def to_json(self) -> list[dict[str, Any]]:
        """Return the groups as JSON values."""
        return [
            {"group": astuple(group), "count": self.counts[group], "tapes": tapes}
            for group, tapes in sorted(self.shortest.items())
        ]

    def add(self, groups: Iterable[dict[str, Any]]) -> None:
        """Add the groups of another process, as `to_json` returns them."""
        for it in groups:
            kind, asked, stale, *pairs = it["group"]
            group = FailureGroup(kind, asked, stale, *(tuple((site, cache) for site, cache in it) for it in pairs))
            self.counts[group] += it["count"]
            for length, scope, tape, divergence in it["tapes"]:
                self._keep(group, (length, scope, tape, divergence))

    def _keep(self, group: FailureGroup, tape: tuple[int, int, int, dict[str, Any]]) -> None:
        kept = self.shortest.setdefault(group, [])
        insort(kept, tape, key=lambda it: it[:3])
        del kept[MAX_KEPT:]


@dataclass(frozen=True)
class FailingTape:
    """A tape on which target and model diverge."""

    scope: Scope
    tape: int
    divergence: Divergence
    group: FailureGroup

    @property
    def name(self) -> str:
        """Name for reports. It is unique."""
        return f"{name_of(self.tape)} at {self.scope}"


@dataclass
class Coverage:
    """The counts of all tapes. Sites and caches have their numbers of the map.

    Attributes:
        scopes: scopes that were played.
        modules: modules of the target that were loaded and instrumented.
        reached: site -> call -> how often.
        alive: site -> how often a cached translation was alive when it was reached.
        exposed: site -> cache -> how often the cache was read again afterwards.
        served: site -> cache -> how often it still had the translation from before.
        needed: guard -> how often a translation that it had dropped was read again.
        needing: guard -> the shortest tapes that needed it, or that reached it if it is no invalidation, and did not
            fail: number of events, of the scope, of the tape.
        failures: failing tapes.
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
    failures: FailureGroups = field(default_factory=FailureGroups)

    def add(self, answer: dict[str, Any]) -> None:
        """Add the counts of one worker."""
        self.tapes += answer["tapes"]
        self.scopes = tuple(SCOPES[number] for number in answer["scopes"])
        self.modules.update(answer["instrumented"])
        for site, call, count in answer["reached"]:
            self.reached[site][call] += count
        for site, count in answer["alive"]:
            self.alive[site] += count
        for counts, name in ((self.exposed, "exposed"), (self.served, "served")):
            for site, cache, count in answer[name]:
                counts[site][cache] += count
        self.needed.update(dict(answer["needed"]))
        for guard, tapes in answer["needing"]:
            merged = sorted([*self.needing[guard], *((length, scope, tape) for length, scope, tape in tapes)])
            self.needing[guard] = merged[:MAX_NEEDING]
        self.failures.add(answer["failures"])

    @property
    def failing_tapes(self) -> list[FailingTape]:
        """The shortest tapes of every group, the shortest first."""
        kept = [(*tape, group) for group, tapes in self.failures.shortest.items() for tape in tapes]
        return [
            FailingTape(SCOPES[scope], tape, divergence_from_json(divergence), group)
            for _, scope, tape, divergence, group in sorted(kept, key=lambda it: (*it[:3], it[4]))
        ]


def measure_coverage(
    target: str, found: Map, changes: Sequence[Change], sources: dict[str, Source], budget: AuditBudget
) -> Coverage:
    """Play tapes on the instrumented target.

    Args:
        sources: path of a file -> its source.

    Raises:
        TargetError: the target cannot be loaded, or a worker was lost.
    """
    hooks = {sources[path].module: hooks for path, hooks in hooks_of(found, changes).items()}
    common = {"target": target, "hooks": hooks, "seed": budget.seed, "rounds": budget.rounds, "seconds": budget.seconds}
    limit = START_SECONDS + GRACE_SECONDS + (budget.seconds or 0.0) + 10.0 * (budget.rounds or 0)
    result = Coverage()
    jobs = [{**common, "first": it, "step": budget.workers} for it in range(budget.workers)]
    for answer in run_jobs("staleloc.sim.audit.play.instrumented_worker", jobs, limit):
        result.add(answer)
    return result
