"""One event of the allocator level while it is played, the world around it, and what the target answered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....models.world import Grant, World
from ...core.divergence import MAX_ROWS, Divergence, LocRow
from ...targets.base import FreeSlots, Rows, Target
from .ledger import Ledger

__all__ = ["Step"]


@dataclass(slots=True)
class Step:
    """One event after the target has executed it.

    Attributes:
        index: the event's place in the tape.
        grants: slots the event handed out, not yet taken over by the world.
        miscount: what is wrong with the number of slots handed out, or an empty string.
        refused: the target refused an allocation; None if the event allocates nothing.
        room: the world says the allocation fits; meaningful with `refused`.
        asked: full locs that were translated, and
        answers: what the target answered for each.
        read_layer: layer that was read; `read_locs` its full locs and `rows` the answer.
        written: layer and tags of a write.
        touched: layers whose contents the event may have changed.
        moved: the SWA slot that each of `grants` had before and that its row comes from; None if rows stay.
        ledger: the scheduler's books before the event, if an event of the tape asks for them; else None.
        mapping: the target's raw table after the event.
        free: the target's raw free lists after the event; None if the event leaves them alone.
    """

    index: int
    event: Any
    world: World
    target: Target
    mapping: list[int] = field(default_factory=list)
    free: FreeSlots | None = None
    grants: list[Grant] = field(default_factory=list)
    miscount: str = ""
    refused: bool | None = None
    room: bool = True
    asked: list[int] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    read_layer: int = -1
    read_locs: list[int] = field(default_factory=list)
    rows: Rows | None = None
    written: tuple[int, list[int]] | None = None
    touched: Iterable[int] = ()
    moved: list[int] | None = None
    ledger: Ledger | None = None
    _contents: dict[int, Rows] = field(default_factory=dict)

    def slot(self, loc: int) -> int:
        """The SWA slot that the raw table has for a full loc after the event."""
        return self.mapping[loc] if loc < len(self.mapping) else 0

    def contents(self, layer: int) -> Rows:
        """Raw contents of a layer after the event, read once."""
        if layer not in self._contents:
            self._contents[layer] = self.target.raw_contents(layer)
        return self._contents[layer]

    def diverges(self, kind: str, check: str, what: str, sentence: str = "", rows: Sequence[LocRow] = ()) -> Divergence:
        """A divergence at this event."""
        return Divergence(kind, check, self.index, what, sentence, tuple(rows[:MAX_ROWS]), self.world.decisive)
