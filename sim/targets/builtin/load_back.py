"""Load-back: a matched prefix that is on the host gets slots on the device, and its mapping back."""

from __future__ import annotations

import torch
from torch import Tensor

from .eviction import Evictor
from .swa import SwaAllocator
from .transfers import Slots, Transfer, TransferQueue
from .tree import PrefixTree
from .tree_nodes import Lock, Node

__all__ = ["LoadBack"]


class LoadBack:
    """Brings nodes from the host to the device."""

    def __init__(self, tree: PrefixTree, allocator: SwaAllocator, evictor: Evictor, transfers: TransferQueue) -> None:
        self.tree = tree
        self.allocator = allocator
        self.evictor = evictor
        self.transfers = transfers

    def load(self, lock: Lock, row: Tensor) -> int | None:
        """Start the load-back of a locked path; how many of its tokens come from the host, None if there is no room.

        Full rows come for every node that is on the host only, SWA rows for the nodes that the lock's
        window needs.

        Args:
            lock: of the path, taken before room is made: the host's copies must not give way to what
                the device evicts (SGLang PRs 26728 and 27631).
            row: the request's row; the full locs of the path are written to its front.
        """
        self.tree.lock_host(lock.node)
        path = list(lock.node.path())[::-1]
        full_nodes = [node for node in path if node.full is None]
        swa_nodes = [node for node in path if node.swa is None and node.start >= lock.since]
        full_pages = sum(len(node.tokens) for node in full_nodes) // self.tree.page_size
        swa_pages = sum(len(node.tokens) for node in swa_nodes) // self.tree.page_size
        if not self.evictor.make_room(full_pages, swa_pages):
            self.tree.unlock_host(lock.node)
            return None
        fresh = iter(self._take_full(full_pages))
        for node in full_nodes:
            self.tree.ledger.take_off(node)
            node.full = [next(fresh) for _ in node.tokens]
            self.tree.ledger.add(node)
        row[: lock.node.end] = torch.tensor(lock.node.prefix_locs())
        # An answer for the row's former contents must not be served for the new ones.
        self.allocator.policy.invalidate()
        swa = self._map_window(row[lock.since : lock.node.end])
        for node in swa_nodes:
            self.tree.ledger.take_off(node)
            node.swa = swa[node.start - lock.since : node.end - lock.since]
            self.tree.ledger.add(node)
        self.transfers.start(self._transfer(lock, full_nodes, swa_nodes))
        return sum(len(node.tokens) for node in path if node in full_nodes or node in swa_nodes)

    def _transfer(self, lock: Lock, full_nodes: list[Node], swa_nodes: list[Node]) -> Transfer:
        """The copy of these nodes' rows, with a lock of its own: the request may be gone before it is over."""
        return Transfer(
            to_host=False,
            device=Slots(
                [loc for node in full_nodes for loc in node.full or ()],
                [loc for node in swa_nodes for loc in node.swa or ()],
            ),
            host=Slots(
                [slot for node in full_nodes for slot in node.host_full or ()],
                [slot for node in swa_nodes for slot in node.host_swa or ()],
            ),
            lock=self.tree.lock(lock.node, lock.since),
            source=lock.node,
            awaited=frozenset(loc for node in [*full_nodes, *swa_nodes] for loc in node.full or ()),
        )

    def _take_full(self, pages: int) -> list[int]:
        taken = self.allocator.full.take(pages)
        assert taken is not None
        size = self.tree.page_size
        return [page * size + offset for page in taken for offset in range(size)]

    def _map_window(self, window: Tensor) -> list[int]:
        """Give SWA slots to the tokens of a window that have none; the SWA locs of all of them.

        The window is translated before and after through the same path as everywhere: the mapping is
        rebuilt in place, under whatever the policy remembers.
        """
        missing: list[int] = window[self.allocator.policy.lookup(window) == 0].tolist()
        self.allocator.set_mapping(missing, self.allocator.take_swa(missing))
        swa: list[int] = self.allocator.policy.lookup(window).tolist()
        return swa
