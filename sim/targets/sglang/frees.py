"""Giving slots back through the calls that a release's own scheduler uses.

Up to 0.5.18 there are ``free`` and ``free_swa``. From 0.5.19 tombstoned locs have a call of their own,
``free_full``, and what is freed inside a group is copied, because callers lend slices of request rows
that are soon written again. From 0.5.20 whole pages of a row go back as segments, from one loc a page.
"""

from __future__ import annotations

from typing import Any

from ..arena import Arena

__all__ = ["Frees"]


class Frees:
    """Frees locs of one allocator.

    Outside a group whole pages go back as segments, where a release has them; inside one, and for a part of
    a page, by the plain calls, which trees use: so both are driven.

    Args:
        allocator: the release's ``SWATokenToKVPoolAllocator``.
        arena: where loc tensors live.
    """

    def __init__(self, allocator: Any, arena: Arena) -> None:
        self._allocator = allocator
        self._fresh = arena.fresh
        self._page_size: int = allocator.page_size
        self._free_full = getattr(allocator, "free_full", None)
        self._copies = hasattr(allocator, "_copy_for_free_group")
        self._segments = hasattr(type(allocator), "free_swa_segment")
        self._group_open = False

    def group(self, begin: bool) -> None:
        """Open or close a free group."""
        self._group_open = begin
        if begin:
            self._allocator.free_group_begin()
        else:
            self._allocator.free_group_end()

    def free(self, mapped: list[int], unmapped: list[int]) -> None:
        """Free whole pages of a request in both pools; the SWA slots of `unmapped` are gone already."""
        if self._free_full is None:
            self._allocator.free(self._fresh(unmapped + mapped))
            return
        self._give(unmapped, self._free_full, "free_full_segment")
        self._give(mapped, self._allocator.free, "free_segment")

    def free_swa(self, locs: list[int]) -> None:
        """Free the SWA slots of these locs."""
        self._give(locs, self._allocator.free_swa, "free_swa_segment")

    def _give(self, locs: list[int], plain: Any, segment: str) -> None:
        if not locs:
            return
        lent = self._fresh(locs)
        if self._segments and not self._group_open and locs[0] % self._page_size == 0:
            getattr(self._allocator, segment)(lent, start_pos=0)
        else:
            plain(lent)
        if self._copies:
            lent.zero_()
