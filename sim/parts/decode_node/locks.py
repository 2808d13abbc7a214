"""Which tokens of the tree a request's prefix lock pins: those it could give up before, and cannot after."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ....models.disaggregation import Tokens
from ...targets.engine import NodeView, RequestView

__all__ = ["Loose", "Pins"]


class Loose(NamedTuple):
    """Whether the tree could give up one token's full and SWA slot."""

    full: bool
    swa: bool


def _loose(nodes: Iterable[NodeView]) -> dict[int, Loose]:
    """Full loc of each token in the tree -> what the tree could give up of it."""
    return {
        loc: Loose(node.full_locks <= 0, node.swa is not None and node.swa_locks <= 0)
        for node in nodes
        for loc in node.full or ()
    }


class Pins:
    """Attributes what was pinned in a round to the requests that were admitted in it, one after the other.

    Args:
        before: the tree before the round.
        after: the tree after it.
        admitted: the requests, as they are after it.
    """

    def __init__(self, before: Sequence[NodeView], after: Sequence[NodeView], admitted: Sequence[RequestView]) -> None:
        self._loose = _loose(before)
        self._swa_locked = {
            loc for node in after if node.swa is not None and node.swa_locks > 0 for loc in node.full or ()
        }
        self._admitted = [set(view.row[: view.shared]) for view in admitted]

    def take(self, view: RequestView, cached: int) -> Tokens | None:
        """What this request's lock pinned first; None if another one may have pinned the same SWA slots."""
        full = swa = 0
        for loc in view.row[:cached]:
            was, locked = self._loose.get(loc, Loose(False, False)), loc in self._swa_locked
            full += was.full
            if was.swa and locked:
                if sum(loc in other for other in self._admitted) > 1:
                    return None
                swa += 1
            self._loose[loc] = Loose(False, was.swa and not locked)
        return Tokens(full, swa)
