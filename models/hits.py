"""Hits: which prefixes a prefix tree can give to a match, and when they were used.

The tree is adopted as it is after each event, page by page. A page has the same number for as long as a tape runs,
whatever the tree does to the nodes that hold it, so two states of the tree can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .eviction import Orders
from .radix import Node, Placed

__all__ = ["Hits", "Kept", "Known", "Reach", "Room", "Shelf"]


class Kept(NamedTuple):
    """The rows that the tree has of one page.

    Attributes:
        node: the node that holds it.
        stop: tokens from the root to its end.
        above: the page before it; 0 for the first one.
        full, swa: on the device.
        host_full, host_swa: on the host.
    """

    node: int
    stop: int
    above: int
    full: bool
    swa: bool
    host_full: bool
    host_swa: bool


class Reach(NamedTuple):
    """The tiers that a match may use."""

    device: bool
    host: bool

    def full(self, page: Kept) -> bool:
        """Whether full rows of a page are there."""
        return (self.device and page.full) or (self.host and page.host_full)

    def swa(self, page: Kept) -> bool:
        """Whether SWA rows of a page are there."""
        return (self.device and page.swa) or (self.host and page.host_swa)


@dataclass
class Shelf:
    """The pages of a tree at one moment.

    Attributes:
        pages: the number of a page -> what is kept of it; a page comes after the one above it.
        nodes: a node's name -> the numbers of its pages, in order.
        views: a node's name -> the node as it was seen.
    """

    pages: dict[int, Kept] = field(default_factory=dict)
    nodes: dict[int, list[int]] = field(default_factory=dict)
    views: dict[int, Node] = field(default_factory=dict)

    def ends(self, reach: Reach, window: int, size: int) -> set[int]:
        """The pages in which a match can end: full rows all the way, and SWA rows of the last `window` tokens.

        Without a tombstone on the way any length will do.
        """
        covered = {0: window}
        found = set()
        for number, page in self.pages.items():
            if page.above in covered and reach.full(page):
                covered[number] = covered[page.above] + size if reach.swa(page) else 0
                if covered[number] >= window:
                    found.add(number)
        return found

    def longest(self, path: Sequence[int], ends: set[int]) -> int:
        """How many of the pages of a path a match takes that ends in one of `ends`."""
        return max((count for count, number in enumerate(path, 1) if number in ends), default=0)

    def leaves(self) -> list[int]:
        """The nodes on the device of which no child is there."""
        inner = {view.parent for view in self.views.values() if view.full is not None}
        return [name for name, view in self.views.items() if view.full is not None and name not in inner]


class Known(NamedTuple):
    """A request as it was after the last event.

    Attributes:
        path: the pages of all its tokens.
        shared: its first tokens that belong to the tree.
        evicted: its first tokens whose SWA slots it gave up.
        inserted: how many of its keys are inserted if it is inserted now; the last page may be partial.
        unsaved: its last chunk is not in the tree yet.
        whole: all of its prompt has KV.
    """

    path: list[int]
    shared: int
    evicted: int
    inserted: int
    unsaved: bool
    whole: bool


class Room(NamedTuple):
    """Tokens for which slots are free, in each pool.

    Attributes:
        quiet: no transfer is queued.
    """

    full: int = 0
    swa: int = 0
    host_full: int = 0
    host_swa: int = 0
    quiet: bool = True


class Hits:
    """The tree and its users after the last event.

    Attributes:
        shelf: the tree.
        known: the requests by number.
        room: the free slots.
        orders: in which order its pages may leave.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, tuple[int, ...]], int] = {}
        self.shelf = Shelf()
        self.known: dict[int, Known] = {}
        self.room = Room()
        self.orders = Orders()

    def path(self, keys: Sequence[int], size: int, above: int = 0) -> list[int]:
        """The numbers of the whole pages of some keys that come after a page."""
        numbers = []
        for start in range(0, len(keys) - size + 1, size):
            above = self._numbers.setdefault((above, tuple(keys[start : start + size])), len(self._numbers) + 1)
            numbers.append(above)
        return numbers

    def shelve(self, placed: Iterable[Placed], size: int) -> Shelf:
        """The pages of a tree; its nodes come parents first."""
        shelf = Shelf()
        for item in placed:
            node, start = item.node, len(item.before)
            above = shelf.nodes[node.parent][-1] if node.parent is not None else 0
            numbers = self.path(node.tokens, size, above)
            held = [slots is not None for slots in (node.full, node.swa, node.host_full, node.host_swa)]
            for number in numbers:
                start += size
                shelf.pages[number] = Kept(node.node, start, above, *held)
                above = number
            shelf.nodes[node.node] = numbers
            shelf.views[node.node] = node
        return shelf

    def turn(
        self,
        event: int,
        shelf: Shelf,
        known: Mapping[int, Known],
        users: Iterable[int],
        ended: Iterable[int],
        room: Room,
    ) -> None:
        """An event is over.

        Args:
            event: its index.
            shelf: the tree after it.
            known: the requests after it.
            users: requests that may have matched, inserted or unlocked their tokens.
            ended: the pages that a match or an insertion ended with.
            room: the free slots after it.
        """
        for request in users:
            for its in (self.known.get(request), known.get(request)):
                self.orders.used.update(dict.fromkeys(its.path if its is not None else (), event))
        for numbers in shelf.nodes.values():
            # Some trees count a split as a use of both halves.
            if numbers[0] in self.shelf.pages and self.shelf.nodes[self.shelf.pages[numbers[0]].node] != numbers:
                self.orders.used.update(dict.fromkeys(numbers, event))
        self.orders.surely.update(dict.fromkeys(ended, event))
        self.orders.keep(event, shelf.pages)
        self.shelf, self.known, self.room = shelf, dict(known), room
