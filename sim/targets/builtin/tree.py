"""The prefix tree: what is cached, by tokens. It knows which slots belong to which node, and frees none."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from .tree_nodes import Ledger, Lock, Node

__all__ = ["Match", "PrefixTree"]


class Match(NamedTuple):
    """How far a prompt is cached.

    Attributes:
        node: the last usable node, with what is on the host.
        device_node: the last node that is usable without the host: `node` or an ancestor.
    """

    node: Node
    device_node: Node


class PrefixTree:
    """Nodes whose keys are whole pages, over two kinds of slots (SGLang's ``UnifiedRadixCache``).

    Args:
        page_size: tokens a page. Every token sequence that comes in is a multiple of it.
        window: sliding window in tokens: so many tokens at a match's end need SWA rows.
        policy: which leaf gives up its full slots first; see `Config.eviction_policy`.

    Attributes:
        ledger: the tokens that it could give up, and those that it could not.
    """

    def __init__(self, page_size: int, window: int, policy: str = "lru") -> None:
        self.page_size = page_size
        self.window = window
        self.policy = policy
        self._names = itertools.count(1)
        self._clock = itertools.count(1)
        self.root = Node(0, None, 0, ())
        self.ledger = Ledger()

    def clear(self) -> None:
        """Forget every node."""
        self.root = Node(0, None, 0, ())
        self.ledger = Ledger()

    def nodes(self) -> Iterator[Node]:
        """Every node but the root, parents before children."""
        stack = list(self.root.children.values())
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    def oldest(self, wanted: Callable[[Node], bool]) -> Node | None:
        """The least recently used of the nodes that are wanted; of several used at once the one nearest the root."""
        return min(filter(wanted, self.nodes()), key=lambda node: (node.used, node.start), default=None)

    def first_to_leave(self, wanted: Callable[[Node], bool]) -> Node | None:
        """The node that the policy gives up first of those that are wanted."""
        if self.policy == "lru":
            return self.oldest(wanted)
        return min(filter(wanted, self.nodes()), key=_ORDERS[self.policy], default=None)

    # Walking down

    def descend(self, tokens: Sequence[int]) -> Iterator[Node]:
        """The nodes along `tokens`. A node that shares only its front is split, and the front is the last.

        The caller may split the node it was given.
        """
        node, at = self.root, 0
        while at < len(tokens):
            child = node.children.get(self._page(tokens, at))
            if child is None:
                return
            shared = self._shared(child.tokens, tokens, at)
            if shared < len(child.tokens):
                child = self.split(child, shared)
            at = child.end
            yield child
            node = child

    def match(self, tokens: Sequence[int]) -> Match:
        """The longest cached prefix of `tokens`; what it ends with becomes the most recently used.

        A prefix can be used if its last `window` tokens have SWA rows, on the device or on the host.
        Tombstones further up do no harm.
        """
        best = on_device = self.root
        # Tokens with SWA rows since the last tombstone. With none on the path, any length will do.
        covered = covered_on_device = self.window
        for node in self.descend(tokens):
            has_swa = node.swa is not None or node.host_swa is not None
            covered = covered + len(node.tokens) if has_swa else 0
            covered_on_device = covered_on_device + len(node.tokens) if node.swa is not None else 0
            if covered >= self.window:
                best = node
            if covered_on_device >= self.window:
                on_device = node
        self.touch(best)
        return Match(best, on_device)

    def window_start(self, node: Node, evicted: int = 0) -> int:
        """Where the nodes start that hold the window that ends with `node`, or what is left of it after `evicted`."""
        start = node.end
        for ancestor in node.path():
            if node.end - start >= self.window or start <= evicted:
                break
            start = ancestor.start
        return start

    # Changing the shape

    def add(self, parent: Node, tokens: Sequence[int]) -> Node:
        """A new child for these tokens, with no slots yet."""
        child = Node(next(self._names), parent, parent.end, tuple(tokens))
        child.made = next(self._clock)
        parent.children[self._page(tokens, 0)] = child
        return child

    def split(self, node: Node, at: int) -> Node:
        """Make the first `at` tokens of a node a parent of their own, and return it; the locks hold both.

        So the ledger stays as it is.
        """
        assert node.parent is not None
        front = self.add(node.parent, node.tokens[:at])
        node.parent = front
        node.start = front.end
        node.tokens = node.tokens[at:]
        front.children[self._page(node.tokens, 0)] = node
        front.full, node.full = _cut(node.full, at)
        front.swa, node.swa = _cut(node.swa, at)
        front.host_full, node.host_full = _cut(node.host_full, at)
        front.host_swa, node.host_swa = _cut(node.host_swa, at)
        front.full_locks = node.full_locks
        front.swa_locks = node.swa_locks
        front.host_locks = node.host_locks
        front.used, front.made = node.used, node.made
        front.insertions, front.priority = node.insertions, node.priority
        return front

    def detach(self, node: Node) -> None:
        """Take a node out of the tree."""
        assert node.parent is not None
        del node.parent.children[self._page(node.tokens, 0)]

    def touch(self, node: Node) -> None:
        """A node and its ancestors are used now."""
        now = next(self._clock)
        for ancestor in node.path():
            ancestor.used = now

    def count_insertion(self, node: Node, priority: int) -> None:
        """Tokens up to the end of `node` were inserted for a request of this priority."""
        for ancestor in node.path():
            ancestor.insertions += 1
            ancestor.priority = max(ancestor.priority, priority)

    # Locks

    def lock(self, node: Node, since: int) -> Lock:
        """Keep the full slots from the root to `node`, and the SWA slots of those that start at `since` or later."""
        for ancestor in node.path():
            self.ledger.take_off(ancestor)
            ancestor.full_locks += 1
            ancestor.swa_locks += ancestor.start >= since
            self.ledger.add(ancestor)
        return Lock(node, since)

    def unlock(self, lock: Lock) -> None:
        """Give up a lock, once."""
        for ancestor in lock.node.path():
            self.ledger.take_off(ancestor)
            ancestor.full_locks -= 1
            ancestor.swa_locks -= ancestor.start >= lock.since
            self.ledger.add(ancestor)

    def lock_host(self, node: Node) -> None:
        """Keep the host slots from the root to `node`, which is locked: a load-back is going to read them."""
        for ancestor in node.path():
            ancestor.host_locks += 1

    def unlock_host(self, node: Node) -> None:
        """Give up what `lock_host` took, once."""
        for ancestor in node.path():
            ancestor.host_locks -= 1

    def release_window(self, lock: Lock, position: int) -> None:
        """Keep no SWA slots of nodes that end at `position` or before (SGLang PRs 24153 and 28161)."""
        since = lock.since
        for ancestor in lock.node.path():
            if ancestor.start >= lock.since and ancestor.end <= position:
                self.ledger.take_off(ancestor)
                ancestor.swa_locks -= 1
                self.ledger.add(ancestor)
                since = max(since, ancestor.end)
        lock.since = since

    def _page(self, tokens: Sequence[int], at: int) -> tuple[int, ...]:
        return tuple(tokens[at : at + self.page_size])

    def _shared(self, key: tuple[int, ...], tokens: Sequence[int], at: int) -> int:
        """How many tokens of a key `tokens` has from `at` on, in whole pages."""
        shared = 0
        while shared < len(key) and self._page(key, shared) == self._page(tokens, at + shared):
            shared += self.page_size
        return shared


_ORDERS: dict[str, Callable[[Node], tuple[int, int]]] = {
    "lfu": lambda node: (node.insertions, node.used),
    "fifo": lambda node: (node.made, node.start),
    "priority": lambda node: (node.priority, node.used),
}
"""Policy -> in which order nodes leave."""


def _cut(slots: list[int] | None, at: int) -> tuple[list[int] | None, list[int] | None]:
    return (None, None) if slots is None else (slots[:at], slots[at:])
