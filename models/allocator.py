"""The owner of each page of one pool: free, live, or freed inside a group that is still open."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["SlotPool"]


class SlotPool:
    """Ownership of the pages of one pool.

    The model does not predict which page an allocator hands out; pages are *adopted* afterwards. Page 0 is the dummy
    page and is never in any set. With page size 1 a page is a slot.

    Attributes:
        pages: number of pages, the dummy page not counted.
        free: pages without an owner.
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
        """Make `request` the owner of `page`. The caller has checked that the page was free."""
        self.free.discard(page)
        self.pending.discard(page)
        self.owner[page] = request

    def release(self, pages: Iterable[int], deferred: bool) -> None:
        """Free these pages; `deferred`: inside an open free group."""
        target = self.pending if deferred else self.free
        for page in pages:
            del self.owner[page]
            target.add(page)

    def settle(self, available: Iterable[int]) -> None:
        """Inside a group: count pending pages as free if the target already offers them again."""
        early = self.pending.intersection(available)
        if early:
            self.pending -= early
            self.free |= early

    def close_group(self) -> None:
        """End the group: pending pages become free."""
        self.free |= self.pending
        self.pending.clear()

    def clear(self) -> None:
        """Free every page."""
        self.owner.clear()
        self.pending.clear()
        self.free = set(range(1, self.pages + 1))

    def snapshot(self) -> dict[int, int]:
        """A snapshot of the owners, for `rewind`."""
        return dict(self.owner)

    def rewind(self, owners: dict[int, int]) -> None:
        """Restore a snapshot that was taken outside a free group."""
        self.owner = dict(owners)
        self.free = set(range(1, self.pages + 1)).difference(owners)
