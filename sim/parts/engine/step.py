"""What an engine-level check is given: one event, the world, and the target's raw state after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from ....models.engine import EngineWorld
from ....models.graphs import Run
from ....models.radix import Placed, place
from ...core.divergence import MAX_ROWS, Divergence, LocRow
from ...core.event import Event
from ...targets.base import FreeSlots, Rows
from ...targets.engine import Admission, Copying, EngineTarget, NodeView, RequestView, slots_in_flight

__all__ = ["EngineStep", "Raw", "Written"]


class Written(NamedTuple):
    """A span of a request's tokens, written by the event."""

    request: int
    start: int
    stop: int


class Raw(NamedTuple):
    """The target's raw state after an event, as far as owners of slots are concerned."""

    tree: list[NodeView]
    requests: dict[int, RequestView]
    mapping: list[int]
    free: FreeSlots


@dataclass
class EngineStep:
    """One engine-level event after the target has executed it.

    Attributes:
        written: spans whose KV the event wrote in every layer.
        runs: forwards that went through a captured graph, and for each layer the slots that they wrote.
        reads: what attention read back: request, start, layer and rows.
        admission: what the event's admission came to, if it was one.
        refused: pages of each pool that a refused allocation needed; None if nothing was refused.
        grouped: whether the event's calls were made inside a free group.
        effect: the event as it took effect; None if it did not apply.
        owed: full and SWA tokens that an eviction was asked for, or a refused allocation needed, and that were
            not freed; None if nothing was asked for or a transfer was queued when it was.
        previous: the target's raw state before the event, as checks read it after the one before; None if they did not.
        tree, requests, mapping, free: the target's raw state after the event.
    """

    index: int
    event: Event
    world: EngineWorld
    target: EngineTarget
    written: list[Written] = field(default_factory=list)
    runs: list[tuple[Run, Sequence[Sequence[int]]]] = field(default_factory=list)
    reads: list[tuple[int, int, int, Rows]] = field(default_factory=list)
    refused: int | None = None
    admission: Admission | None = None
    owed: tuple[int, int] | None = None
    effect: Event | None = None
    grouped: bool = False
    previous: Raw | None = None

    @property
    def seen_by_checks(self) -> Raw | None:
        """The raw state after the event; None unless a check has read all of it."""
        read = vars(self)
        return Raw(*(read[name] for name in Raw._fields)) if read.keys() >= set(Raw._fields) else None

    @cached_property
    def tree(self) -> list[NodeView]:
        """The nodes after the event."""
        return self.target.raw_tree()

    @cached_property
    def placed(self) -> list[Placed]:
        """The nodes with their places in the tree."""
        return place(self.tree)

    @property
    def keyed(self) -> list[Placed]:
        """The nodes with their places, in keys of the tree: here its keys are tokens."""
        return self.placed

    def path(self, number: int, count: int) -> list[int]:
        """The first `count` keys of a request."""
        return self.world.requests[number].tokens[:count]

    @cached_property
    def requests(self) -> dict[int, RequestView]:
        """The admitted requests after the event."""
        return self.target.raw_requests()

    @property
    def has_tree(self) -> bool:
        """Whether the target keeps a prefix tree."""
        return True

    def remember(self) -> object:
        """The event is about to be played, and a check wants the raw state before it."""
        return None

    def extended(self, numbers: list[int]) -> None:
        """The target has computed tokens of these requests' prompts."""

    @property
    def rules(self) -> object | None:
        """How the target counts, where that differs from one to the next: a frozen dataclass of yes or no."""
        return None

    @property
    def lockable(self) -> dict[int, list[int]]:
        """Requests that may keep more locked than they share -> the tokens whose nodes they may lock."""
        return {}

    def origin(self, slot: int) -> str:
        """What is known of how an SWA slot that the tree keeps came to hold another row; empty if nothing is."""
        return ""

    @cached_property
    def mapping(self) -> list[int]:
        """The raw table after the event."""
        return self.target.raw_mapping()

    @cached_property
    def free(self) -> FreeSlots:
        """The device pools' free lists after the event."""
        return self.target.raw_free()

    @cached_property
    def host_free(self) -> FreeSlots:
        """The host pools' free lists after the event."""
        return self.target.raw_host_free()

    @cached_property
    def copying(self) -> list[Copying]:
        """The queued transfers after the event."""
        return self.target.in_flight()

    @cached_property
    def in_flight(self) -> tuple[FreeSlots, FreeSlots]:
        """Device and host slots that queued transfers use."""
        return slots_in_flight(self.copying)

    @cached_property
    def contents(self) -> list[Rows]:
        """Raw rows of every layer's device slots."""
        return [self.target.raw_contents(layer) for layer in range(len(self.world.config.layers))]

    @cached_property
    def host_contents(self) -> list[Rows]:
        """Raw rows of every layer's host slots."""
        return [self.target.raw_host_contents(layer) for layer in range(len(self.world.config.layers))]

    def pages(self, slots: Sequence[int] | None) -> set[int]:
        """The device pages of some slots."""
        size = self.world.config.page_size
        return {slot // size for slot in slots or ()}

    def diverges(self, kind: str, what: str, sentence: str = "", rows: Sequence[LocRow] = ()) -> Divergence:
        """A divergence at this event; of a stale answer it says which event changed the mapping from it."""
        if kind == "stale-translation":
            self.world.mapping.follow(self.index, self.mapping)
            rows = [replace(row, stale_at=self._changed_from(row)) for row in rows[:MAX_ROWS]]
        return Divergence(kind, "", self.index, what, sentence, tuple(rows[:MAX_ROWS]), self.world.decisive)

    def _changed_from(self, row: LocRow) -> int | None:
        # That a loc has no slot is what a graph's warm-up is told, too, and nothing changed from that.
        return self.world.mapping.changed_from(row.loc, row.actual) if row.actual else None
