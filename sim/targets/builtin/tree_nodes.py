"""A node of the prefix tree: its tokens, and in which slots their KV is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Ledger", "Lock", "Node"]


class Node:
    """Some whole pages of tokens after those of its ancestors.

    A node without `swa` whose `full` is there is a tombstone. The four slot lists are as long as
    `tokens`, or None where that tier does not hold the rows; one of `full` and `host_full` always is
    there. An ancestor of a node on the device is on the device.

    Attributes:
        name: a number that stays the same, and goes with the later half when the node is split.
        start: how many tokens come before its own; never changes for a token.
        full: full locs.
        swa: SWA locs: the mapping of `full`.
        host_full: host slots of the full rows.
        host_swa: host slots of the SWA rows.
        full_locks: references that keep it and its full slots, and its host slots with them.
        swa_locks: references that keep its SWA slots too.
        host_locks: references that keep its host slots, whatever becomes of those on the device.
        used: when it was last used, by the tree's clock.
        made: when its last token was first inserted, by the same clock.
        insertions: how many insertions went through it.
        priority: the highest priority of those.
    """

    def __init__(self, name: int, parent: Node | None, start: int, tokens: tuple[int, ...]) -> None:
        self.name = name
        self.parent = parent
        self.start = start
        self.tokens = tokens
        self.children: dict[tuple[int, ...], Node] = {}
        self.full: list[int] | None = None
        self.swa: list[int] | None = None
        self.host_full: list[int] | None = None
        self.host_swa: list[int] | None = None
        self.full_locks = 0
        self.swa_locks = 0
        self.host_locks = 0
        self.used = self.made = 0
        self.insertions = self.priority = 0

    @property
    def end(self) -> int:
        """How many tokens come before the next node."""
        return self.start + len(self.tokens)

    @property
    def is_device_leaf(self) -> bool:
        """Whether it is on the device and none of its children is."""
        return self.full is not None and all(child.full is None for child in self.children.values())

    @property
    def is_useless(self) -> bool:
        """Whether no match can end in or below it: a leaf without SWA rows anywhere."""
        return not self.children and self.swa is None and self.host_swa is None

    def path(self) -> Iterator[Node]:
        """Itself and its ancestors, deepest first, without the root."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent

    def prefix_locs(self) -> list[int]:
        """Full locs of every token up to its end. All of it is on the device."""
        return [loc for node in [*self.path()][::-1] for loc in node.full or ()]


@dataclass
class Ledger:
    """Tokens of the tree on the device, by pool: those that it could give up, and those that locks keep.

    A node is taken off before its slots or its locks change, and added again after it.
    """

    full_evictable: int = 0
    full_protected: int = 0
    swa_evictable: int = 0
    swa_protected: int = 0

    def add(self, node: Node) -> None:
        """Count a node's slots by its locks."""
        self._count(node, len(node.tokens))

    def take_off(self, node: Node) -> None:
        """Count a node's slots no longer."""
        self._count(node, -len(node.tokens))

    def _count(self, node: Node, tokens: int) -> None:
        if node.full is not None:
            if node.full_locks:
                self.full_protected += tokens
            else:
                self.full_evictable += tokens
        if node.swa is not None:
            if node.swa_locks:
                self.swa_protected += tokens
            else:
                self.swa_evictable += tokens


@dataclass
class Lock:
    """A reference to a path of the tree.

    It is kept as positions, which a split does not change: full slots are kept from the root to
    `node`, SWA slots from position `since`, the start of some node, to `node`.
    """

    node: Node
    since: int
