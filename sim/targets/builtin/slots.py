"""The free slots of one pool, and how requests get them: page by page, a page's slots in order.

With page size 1 a page is a slot. Page 0 is padding: rows nobody owns are written there, so it is
never handed out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["FreePages", "SlotAllocator"]

FreePages = tuple[list[int], list[int]]
"""A copy of both free lists: pages ready to hand out, and pages released since the last sort."""


class SlotAllocator:
    """Hands out the slots of one pool.

    Args:
        size: slots of the pool in tokens, the dummy page not counted.
        page_size: tokens a page.
        need_sort: keep released pages apart, and merge them in, sorted, when the free list runs short.
    """

    def __init__(self, size: int, page_size: int, need_sort: bool) -> None:
        self.page_size = page_size
        self.need_sort = need_sort
        self._pages = size // page_size
        self._free: list[int] = []
        self._released: list[int] = []
        self.clear()

    def clear(self) -> None:
        """Make every page free but the dummy page."""
        self._free = list(range(1, self._pages + 1))
        self._released = []

    def free_pages(self) -> list[int]:
        """Every free page, in the order and multiplicity of the lists."""
        return self._free + self._released

    def available_pages(self) -> int:
        """How many pages are free."""
        return len(self._free) + len(self._released)

    def available_size(self) -> int:
        """How many tokens can be handed out, in whole pages."""
        return self.available_pages() * self.page_size

    def take(self, count: int) -> list[int] | None:
        """Take `count` pages from the front of the free list, or None, and nothing changes, if there are too few."""
        if count > len(self._free):
            self._merge_released()
        if count > len(self._free):
            return None
        pages = self._free[:count]
        del self._free[:count]
        return pages

    def release(self, pages: Iterable[int]) -> None:
        """Give pages back. They must not be free already: nothing checks that."""
        if self.need_sort:
            self._released.extend(pages)
        else:
            self._free.extend(pages)

    def pages_of(self, locs: Iterable[int]) -> list[int]:
        """The pages that these slots lie in, each once."""
        return list(dict.fromkeys(loc // self.page_size for loc in locs))

    def pages_needed(self, prefix_lens: Sequence[int], seq_lens: Sequence[int]) -> int:
        """How many new pages it takes to grow requests from `prefix_lens` to `seq_lens` tokens."""
        size = self.page_size
        return sum(-(-seq // size) - -(-prefix // size) for prefix, seq in zip(prefix_lens, seq_lens, strict=True))

    def alloc_extend(
        self, prefix_lens: Sequence[int], seq_lens: Sequence[int], last_locs: Sequence[int]
    ) -> list[int] | None:
        """Slots of the new tokens of all requests, one request after the other.

        A request first fills the page its last token (`last_locs`, -1 if it has none) lies in, then
        whole new pages, then the front of one more. None, and nothing changes, if there are too few pages.
        """
        pages = self.take(self.pages_needed(prefix_lens, seq_lens))
        if pages is None:
            return None
        new_pages = iter(pages)
        locs: list[int] = []
        for prefix, seq, last in zip(prefix_lens, seq_lens, last_locs, strict=True):
            left = seq - prefix
            filling = min(left, -prefix % self.page_size)
            locs.extend(range(last + 1, last + 1 + filling))
            left -= filling
            while left > 0:
                start = next(new_pages) * self.page_size
                used = min(left, self.page_size)
                locs.extend(range(start, start + used))
                left -= used
        return locs

    def alloc_decode(self, seq_lens: Sequence[int], last_locs: Sequence[int]) -> list[int] | None:
        """One slot a request; `seq_lens` count the new token. None, and nothing changes, if there are too few pages."""
        return self.alloc_extend([seq - 1 for seq in seq_lens], seq_lens, last_locs)

    def backup(self) -> FreePages:
        """A copy of the free lists."""
        return list(self._free), list(self._released)

    def restore(self, state: FreePages) -> None:
        """Go back to a copy; the copy stays good for another time."""
        free, released = state
        self._free = list(free)
        self._released = list(released)

    def _merge_released(self) -> None:
        if self._released:
            self._free = sorted(self._free + self._released)
            self._released = []
