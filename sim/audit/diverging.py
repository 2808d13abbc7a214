"""Tapes on which target and model part: the ways in which they do, and the shortest tapes of each."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from staleloc.sim.divergence import Divergence
from staleloc.sim.events import Event
from staleloc.sim.wire import divergence_to_json

__all__ = ["Diverging", "Way"]

MAX_KEPT = 3
"""Tapes, the shortest, that are kept of each way."""


@dataclass(frozen=True, order=True)
class Way:
    """How tapes diverge.

    Attributes:
        kind: of the divergence.
        asked: kind of the event that shows it.
        stale: kind of the event that made an answer wrong; ``""`` if that cannot be told.
        blamed: ``(site, cache)``: in such an event the site changed the mapping, and the cache served the answer from
            before.
    """

    kind: str
    asked: str
    stale: str
    blamed: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, divergence: Divergence, events: tuple[Event, ...], served: Mapping[tuple[int, int], Set[str]]) -> Way:
        """That of one tape.

        Args:
            served: ``(site, cache)`` -> calls in which the site changed the mapping under an answer that was served
                afterwards.
        """
        stale = "" if divergence.stale_at is None else events[divergence.stale_at].kind
        asked = events[divergence.event].kind if divergence.event < len(events) else ""
        return cls(divergence.kind, asked, stale, tuple(sorted(key for key, calls in served.items() if stale in calls)))


@dataclass
class Diverging:
    """What is kept of tapes that diverge: however many there are of one way, none of another is lost.

    Attributes:
        counts: how many tapes diverge in each way.
        shortest: way -> events up to the divergence, number of the scope, of the tape, and the divergence as JSON.
    """

    counts: Counter[Way] = field(default_factory=Counter)
    shortest: dict[Way, list[tuple[int, int, int, dict[str, Any]]]] = field(default_factory=dict)

    def note(self, way: Way, scope: int, tape: int, divergence: Divergence) -> None:
        """One more tape."""
        self.counts[way] += 1
        self._keep(way, (divergence.event, scope, tape, divergence_to_json(divergence)))

    def to_json(self) -> list[dict[str, Any]]:
        """For another process."""
        return [
            {"way": [way.kind, way.asked, way.stale, way.blamed], "count": self.counts[way], "tapes": tapes}
            for way, tapes in sorted(self.shortest.items())
        ]

    def add(self, told: Iterable[dict[str, Any]]) -> None:
        """Count what another process has kept."""
        for it in told:
            kind, asked, stale, blamed = it["way"]
            way = Way(kind, asked, stale, tuple((site, cache) for site, cache in blamed))
            self.counts[way] += it["count"]
            for length, scope, tape, divergence in it["tapes"]:
                self._keep(way, (length, scope, tape, divergence))

    def _keep(self, way: Way, tape: tuple[int, int, int, dict[str, Any]]) -> None:
        kept = self.shortest.setdefault(way, [])
        insort(kept, tape, key=lambda it: it[:3])
        del kept[MAX_KEPT:]
