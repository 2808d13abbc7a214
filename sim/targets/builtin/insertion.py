"""Insertion: a request's computed tokens become the tree's."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from .swa import SwaAllocator
from .tree import PrefixTree
from .tree_nodes import Node

__all__ = ["Insertion"]


class Insertion:
    """Hands slots over from requests to the tree.

    Afterwards each token of the request is held once, by the tree, and the request's row names the
    tree's slots.
    """

    def __init__(self, tree: PrefixTree, allocator: SwaAllocator) -> None:
        self.tree = tree
        self.allocator = allocator

    def insert(self, tokens: Sequence[int], row: Tensor, shared: int, evicted: int) -> Node:
        """Insert tokens with their full locs; returns the node that ends with the last of them.

        Args:
            tokens: whole pages.
            row: the request's row, as long as `tokens`; changed where the tree has the token already.
            shared: how many of the first tokens the tree owns already.
            evicted: how many of the first tokens have no SWA slots any more: whole pages, not all
                (SGLang PR 29350: a tree that is not told records evicted tokens as live).
        """
        last = self.tree.root
        for node in self.tree.descend(tokens):
            last = node
            if node.end > shared:
                self._overlap(node, row, evicted)
        for stop in (evicted, len(tokens)):
            # A leaf that begins before the evicted boundary is two nodes, the first a tombstone.
            if last.end < stop:
                last = self._append(last, tokens[last.end : stop], row, evicted)
        self.tree.touch(last)
        return last

    def _overlap(self, node: Node, row: Tensor, evicted: int) -> None:
        """The tree has these tokens, and the request has slots of its own for them."""
        if node.swa is None and node.start < evicted < node.end:
            self._overlap(self.tree.split(node, evicted - node.start), row, evicted)
        own = row[node.start : node.end]
        if node.full is None:
            self._take(node, own, evicted)
        elif node.swa is None and evicted <= node.start:
            self._recover(node, node.full, own)
        else:
            self.allocator.free(own.tolist())
            own.copy_(own.new_tensor(node.full))

    def _append(self, parent: Node, tokens: Sequence[int], row: Tensor, evicted: int) -> Node:
        node = self.tree.add(parent, tokens)
        self._take(node, row[node.start : node.end], evicted)
        return node

    def _take(self, node: Node, own: Tensor, evicted: int) -> None:
        """A node that is not on the device takes the request's slots."""
        node.full = own.tolist()
        if evicted <= node.start:
            node.swa = self._translate(own)
        self.tree.ledger.add(node)

    def _recover(self, node: Node, full: list[int], own: Tensor) -> None:
        """A tombstone takes the request's SWA slots and keeps its own full slots, which others may be using.

        The request's full slots lose their entries before they are freed: through a stale entry the
        free would take the SWA slots along that the node just got (SGLang PRs 27586 and 27789).
        """
        swa = self._translate(own)
        slots: list[int] = own.tolist()
        self.allocator.set_mapping(slots, [0] * len(slots))
        self.allocator.set_mapping(full, swa)
        self.allocator.free(slots)
        self.tree.ledger.take_off(node)
        node.swa = swa
        self.tree.ledger.add(node)
        own.copy_(own.new_tensor(full))

    def _translate(self, locs: Tensor) -> list[int]:
        swa: list[int] = self.allocator.policy.lookup(locs).tolist()
        return swa
