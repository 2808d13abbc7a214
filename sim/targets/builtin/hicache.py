"""The host tier: nodes are copied to it, live there when they have left the device, and give way to newer ones."""

from __future__ import annotations

from ....models.config import FULL, SWA
from .host_pool import HostPool
from .transfers import Slots, Transfer, TransferQueue
from .tree import PrefixTree
from .tree_nodes import Node
from .tree_slots import TreeSlots

__all__ = ["HostTier"]


class HostTier:
    """Backups of nodes (SGLang's HiCache).

    Args:
        slots: how nodes give up theirs.
        host: where backups go.
        transfers: how they get there.
        write_back: nodes are copied when they are evicted; otherwise right after they were inserted.
    """

    def __init__(self, slots: TreeSlots, host: HostPool, transfers: TransferQueue, write_back: bool) -> None:
        self.tree: PrefixTree = slots.tree
        self.slots = slots
        self.host = host
        self.transfers = transfers
        self.write_back = write_back

    def inserted(self, node: Node) -> None:
        """Copy what an insertion left without a backup, parents first. The caller has locked `node`."""
        if self.write_back:
            return
        for ancestor in reversed(list(node.path())):
            if self.lacks_backup(ancestor) and not self.backup(ancestor, demote=False):
                return

    def lacks_backup(self, node: Node) -> bool:
        """Whether the device holds rows of a node that the host does not."""
        return node.host_full is None or (node.host_swa is None and node.swa is not None)

    def backup(self, node: Node, demote: bool) -> bool:
        """Start to copy the rows the host lacks, or return False if there is no room for them.

        Args:
            node: on the device.
            demote: it leaves the device when the copy is over.
        """
        assert node.full is not None
        device = Slots(
            node.full if node.host_full is None else [],
            node.swa if node.swa is not None and node.host_swa is None else [],
        )
        # Locked before room is made, so that the node's other rows on the host are not what gives way.
        lock = self.tree.lock(node, node.start if device.swa else node.end)
        taken = self._take(len(device.full), len(device.swa))
        if taken is None:
            self.tree.unlock(lock)
            return False
        host = Slots(*taken)
        if host.full:
            node.host_full = host.full
        if host.swa:
            node.host_swa = host.swa
        self.transfers.start(Transfer(True, device, host, lock, demote=demote))
        return True

    def _take(self, full: int, swa: int) -> tuple[list[int], list[int]] | None:
        """Host slots, from older nodes if need be."""
        while full > len(self.host.free[FULL]):
            node = self.tree.first_to_leave(self._is_host_leaf)
            if node is None:
                return None
            self._evict(node)
        while swa > len(self.host.free[SWA]):
            node = self.tree.oldest(lambda node: node.host_swa is not None and not self._is_kept(node))
            if node is None:
                return None
            self.slots.leave_host_window(node)
            self.slots.prune(node)
        return self.host.take(full, swa)

    def _is_host_leaf(self, node: Node) -> bool:
        """Whether a node's backup can go: nothing uses it, and no backup hangs below it."""
        return (
            node.host_full is not None
            and not self._is_kept(node)
            and all(child.host_full is None for child in node.children.values())
        )

    @staticmethod
    def _is_kept(node: Node) -> bool:
        """Whether somebody uses a node: its host slots stay."""
        return node.full_locks > 0 or node.host_locks > 0

    def _evict(self, node: Node) -> None:
        if node.full is not None:
            self.slots.leave_host(node)
            self.slots.prune(node)
            return
        assert node.parent is not None
        self.slots.delete(node)
        self.slots.prune(node.parent)
