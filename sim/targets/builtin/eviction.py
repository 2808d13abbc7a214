"""Eviction: the tree gives up device slots, by its policy, so that requests get them."""

from __future__ import annotations

from .hicache import HostTier
from .swa import SwaAllocator
from .transfers import TransferQueue
from .tree import PrefixTree
from .tree_nodes import Node
from .tree_slots import TreeSlots

__all__ = ["Evictor"]


class Evictor:
    """Decides which unlocked nodes leave the device, and what becomes of them."""

    def __init__(self, slots: TreeSlots, allocator: SwaAllocator, tier: HostTier, transfers: TransferQueue) -> None:
        self.tree: PrefixTree = slots.tree
        self.slots = slots
        self.allocator = allocator
        self.tier = tier
        self.transfers = transfers

    def evict(self, full: int, swa: int) -> int:
        """Give up this many tokens of each pool, as far as nothing locks them; how many went in both together.

        Full slots go leaf by leaf. Where only SWA slots are wanted, inner nodes become tombstones.
        Slots of a node that is copied to the host first are free when the copy is over.
        """
        full_gone = swa_gone = 0
        while full_gone < full:
            node = self.tree.first_to_leave(self._is_evictable)
            if node is None:
                break
            full_gone += len(node.tokens)
            swa_gone += self._evict_leaf(node)
        while swa_gone < swa:
            node = self.tree.oldest(lambda node: node.swa is not None and not node.swa_locks)
            if node is None:
                break
            swa_gone += self._evict_leaf(node) if self._is_evictable(node) else self._tombstone(node)
        return full_gone + swa_gone

    def make_room(self, full_pages: int, swa_pages: int) -> bool:
        """Evict until so many pages are free, waiting for copies where that helps; False if it cannot be done."""
        page_size = self.tree.page_size
        while not self._has_room(full_pages, swa_pages):
            full_short = full_pages - self.allocator.full.available_pages()
            swa_short = swa_pages - self.allocator.swa.available_pages()
            gone = self.evict(full_short * page_size, swa_short * page_size)
            if not gone and not self.transfers.queued:
                return False
            while self.transfers.queued and not self._has_room(full_pages, swa_pages):
                self.settle(1)
        return True

    def settle(self, count: int) -> None:
        """The oldest `count` transfers are over: give up their locks, and the nodes that were only waiting."""
        for _ in range(count):
            transfer = self.transfers.complete()
            if transfer.source is not None:
                self.tree.unlock_host(transfer.source)
            self.slots.unlock(transfer.lock)
            # A tombstone may have got SWA rows since, which the host lacks: it is evicted anew when its turn comes.
            if self.tier.lacks_backup(transfer.lock.node):
                continue
            if transfer.demote and self._is_evictable(transfer.lock.node):
                self._demote(transfer.lock.node)

    def _has_room(self, full_pages: int, swa_pages: int) -> bool:
        return full_pages <= self.allocator.full.available_pages() and swa_pages <= self.allocator.swa.available_pages()

    def _is_evictable(self, node: Node) -> bool:
        return not node.full_locks and node.is_device_leaf

    def _evict_leaf(self, node: Node) -> int:
        """A leaf leaves the device, to the host or for good; how many SWA slots go with it."""
        gone = 0 if node.swa is None else len(node.swa)
        if self.tier.write_back and self.tier.lacks_backup(node) and self.tier.backup(node, demote=True):
            return gone
        if node.host_full is not None:
            self._demote(node)
        else:
            # Without a backup it has no children: one on the host is backed up after its parent, or has given
            # way when there was no room for the parent.
            assert node.parent is not None
            self.slots.delete(node)
            self.slots.prune(node.parent)
        return gone

    def _demote(self, node: Node) -> None:
        """A node lives on on the host."""
        self.slots.leave_device(node)
        self.slots.prune(node)

    def _tombstone(self, node: Node) -> int:
        self.slots.leave_window(node)
        return len(node.tokens)
