"""How nodes give slots up, on the device and on the host, and when they go altogether."""

from __future__ import annotations

from ....models.config import FULL, SWA
from .host_pool import HostPool
from .swa import SwaAllocator
from .tree import PrefixTree
from .tree_nodes import Lock, Node

__all__ = ["TreeSlots"]


class TreeSlots:
    """Gives the slots of unlocked nodes back to the pools they came from."""

    def __init__(self, tree: PrefixTree, allocator: SwaAllocator, host: HostPool) -> None:
        self.tree = tree
        self.allocator = allocator
        self.host = host

    def leave_window(self, node: Node) -> None:
        """Give up the SWA slots on the device: the node is a tombstone."""
        if node.full is not None and node.swa is not None:
            self.allocator.free_swa(node.full)
            self.tree.ledger.take_off(node)
            node.swa = None
            self.tree.ledger.add(node)

    def leave_device(self, node: Node) -> None:
        """Give up all slots on the device."""
        if node.full is not None:
            self.allocator.free(node.full)
            self.tree.ledger.take_off(node)
            node.full = node.swa = None

    def leave_host_window(self, node: Node) -> None:
        """Give up the SWA slots on the host."""
        if node.host_swa is not None:
            self.host.release(SWA, node.host_swa)
            node.host_swa = None

    def leave_host(self, node: Node) -> None:
        """Give up all slots on the host."""
        self.leave_host_window(node)
        if node.host_full is not None:
            self.host.release(FULL, node.host_full)
            node.host_full = None

    def delete(self, node: Node) -> None:
        """Take a leaf out of the tree."""
        assert not node.children
        self.leave_device(node)
        self.leave_host(node)
        self.tree.detach(node)

    def prune(self, node: Node) -> None:
        """Delete a node that no match can use, if nothing locks it, then its parent, and so on."""
        for useless in list(node.path()):
            if not useless.is_useless or useless.full_locks:
                return
            self.delete(useless)

    def unlock(self, lock: Lock) -> None:
        """Give up a lock, and the node if only the lock kept it."""
        self.tree.unlock(lock)
        self.prune(lock.node)
