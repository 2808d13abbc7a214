"""A check: one oracle of the allocator level, and how it names locs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ....core.divergence import MAX_ROWS, Divergence
from ..step import Step

__all__ = ["Check", "Step", "loc_list"]


class Check(NamedTuple):
    """One oracle. `early` checks see an allocation before the world takes it over.

    `run` returns the first divergence it sees, or None. It reads raw state only.
    """

    name: str
    run: Callable[[Step], Divergence | None]
    early: bool = False


def loc_list(locs: Iterable[int]) -> str:
    """Locs for people: at most eight, in order."""
    ordered = sorted(locs)
    more = f" and {len(ordered) - MAX_ROWS} more" if len(ordered) > MAX_ROWS else ""
    return ", ".join(map(str, ordered[:MAX_ROWS])) + more
