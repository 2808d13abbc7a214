"""Tapes on which target and model part: the ways in which they do, and the shortest tapes of each."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import astuple, dataclass, field
from typing import Any

from ...core.divergence import Divergence
from ...core.event import Event
from ...run.wire import divergence_to_json

__all__ = ["NOBODY", "Diverging", "Way"]

MAX_KEPT = 3
"""Tapes, the shortest, that are kept of each way."""


NOBODY = -1
"""Number of a cache that was not found in the source."""


@dataclass(frozen=True, order=True)
class Way:
    """How tapes diverge.

    Attributes:
        kind: of the divergence.
        asked: kind of the event that shows it.
        stale: kind of the event that made an answer wrong; ``""`` if that cannot be told.
        blamed: ``(site, cache)``: in that event the site changed the mapping, and the cache served the answer from
            before.
        doubted: ``(site, cache)`` that can neither be blamed nor cleared: what else was served too late in the event
            that shows it, or in any if it is not known what made the answer wrong; with `NOBODY`, the sites of the
            event that did, or of the one that shows it if that is not known.
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
    ) -> Way:
        """That of one tape.

        Args:
            late: ``(site, cache)`` -> events in which the site changed the mapping under an answer, each with the event
                in which it was served afterwards.
            changed: event -> sites that were reached in it.
        """
        shown, at = divergence.event, divergence.stale_at
        asked = events[shown].kind if shown < len(events) else ""
        if at is None:
            here = [(site, NOBODY) for site in changed.get(shown, ())]
            return cls(divergence.kind, asked, "", (), tuple(sorted([*late, *here])))
        stale = events[at].kind
        blamed = sorted(key for key, times in late.items() if any(made == at for made, _ in times))
        if blamed:
            return cls(divergence.kind, asked, stale, tuple(blamed))
        others = sorted(key for key, times in late.items() if any(served == shown for _, served in times))
        here = [(site, NOBODY) for site in sorted(changed.get(at, ()))]
        return cls(divergence.kind, asked, stale, (), tuple(others or here))


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
            {"way": astuple(way), "count": self.counts[way], "tapes": tapes}
            for way, tapes in sorted(self.shortest.items())
        ]

    def add(self, told: Iterable[dict[str, Any]]) -> None:
        """Count what another process has kept."""
        for it in told:
            kind, asked, stale, *pairs = it["way"]
            way = Way(kind, asked, stale, *(tuple((site, cache) for site, cache in it) for it in pairs))
            self.counts[way] += it["count"]
            for length, scope, tape, divergence in it["tapes"]:
                self._keep(way, (length, scope, tape, divergence))

    def _keep(self, way: Way, tape: tuple[int, int, int, dict[str, Any]]) -> None:
        kept = self.shortest.setdefault(way, [])
        insort(kept, tape, key=lambda it: it[:3])
        del kept[MAX_KEPT:]
