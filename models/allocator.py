"""Who owns each page of one pool: free, live, or freed inside a group that is still open."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["SlotPool"]


class SlotPool:
    """Ownership of the pages of one pool.

    Which page an allocator hands out is its own business, so pages are *adopted* after they were
    handed out. Page 0 is the dummy page and is never in any set. With page size 1 a page is a slot.

    Attributes:
        pages: number of pages, the dummy page not counted.
        free: pages nobody owns.
        pending: pages freed inside an open free group; a target may make them available at once or
            at the group's end (SGLang did the first up to 0.5.17 for SWA slots).
        owner: page -> request that owns it.
    """

    def __init__(self, pages: int) -> None:
        self.pages = pages
        self.owner: dict[int, int] = {}
        self.pending: set[int] = set()
        self.free: set[int] = set(range(1, pages + 1))

    def adopt(self, page: int, request: int) -> None:
        """`request` owns `page` from now on. The caller has checked that it was free."""
        self.free.discard(page)
        self.pending.discard(page)
        self.owner[page] = request

    def release(self, pages: Iterable[int], deferred: bool) -> None:
        """The owners give these pages up; `deferred`: inside an open free group."""
        target = self.pending if deferred else self.free
        for page in pages:
            del self.owner[page]
            target.add(page)

    def settle(self, available: Iterable[int]) -> None:
        """Inside a group: pending pages that the target already offers again count as free."""
        early = self.pending.intersection(available)
        if early:
            self.pending -= early
            self.free |= early

    def close_group(self) -> None:
        """The group is over: what was pending is free."""
        self.free |= self.pending
        self.pending.clear()

    def clear(self) -> None:
        """Nobody owns anything."""
        self.owner.clear()
        self.pending.clear()
        self.free = set(range(1, self.pages + 1))

    def snapshot(self) -> dict[int, int]:
        """The owners now, to go back to with `rewind`."""
        return dict(self.owner)

    def rewind(self, owners: dict[int, int]) -> None:
        """Go back to a snapshot taken outside a free group."""
        self.owner = dict(owners)
        self.free = set(range(1, self.pages + 1)).difference(owners)
