"""What each check of the allocator level is made of, and how it names locs."""

from __future__ import annotations

from collections.abc import Iterable

from ....core.divergence import MAX_ROWS
from ...check import Check
from ..step import Step

__all__ = ["Check", "Step", "loc_list"]


def loc_list(locs: Iterable[int]) -> str:
    """Locs for people: at most eight, in order."""
    ordered = sorted(locs)
    more = f" and {len(ordered) - MAX_ROWS} more" if len(ordered) > MAX_ROWS else ""
    return ", ".join(map(str, ordered[:MAX_ROWS])) + more
