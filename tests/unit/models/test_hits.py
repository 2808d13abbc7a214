"""Which prefixes a tree can give to a match, and what is remembered of their use."""

from __future__ import annotations

from staleloc.models.hits import Hits, Known, Reach, Room
from staleloc.models.radix import place
from staleloc.sim.targets.engine import NodeView

DEVICE, HOST, BOTH = Reach(True, False), Reach(False, True), Reach(True, True)
PLAIN = NodeView(1, None, (1, 1, 2, 2), (2, 3, 4, 5), (2, 3, 4, 5), None, None, 0, 0)
TOMBSTONE = NodeView(2, 1, (3, 3), (6, 7), None, (0, 1), (0, 1), 0, 0)
LEAF = NodeView(3, 2, (4, 4, 5, 5), (8, 9, 10, 11), (8, 9, 10, 11), None, None, 0, 0)


def test_a_match_needs_a_window_after_a_tombstone_and_full_rows_all_the_way() -> None:
    """With the host's rows the tombstone is none; the host alone has no way to it."""
    memory = Hits()
    path = memory.path([1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6], 2)
    shelf = memory.shelve(place([PLAIN, TOMBSTONE, LEAF]), 2)
    assert shelf.longest(path, shelf.ends(DEVICE, 4, 2)) == 5
    assert shelf.longest(path[:4], shelf.ends(DEVICE, 4, 2)) == 2
    assert shelf.longest(path[:4], shelf.ends(DEVICE, 2, 2)) == 4
    assert shelf.longest(path[:4], shelf.ends(BOTH, 4, 2)) == 4
    assert shelf.ends(HOST, 1, 2) == set()
    assert shelf.leaves() == [3]


def test_a_page_keeps_its_number_when_its_node_is_split() -> None:
    """So two states of a tree can be compared."""
    memory = Hits()
    halves = [
        NodeView(4, None, (1, 1), (2, 3), (2, 3), None, None, 0, 0),
        NodeView(1, 4, (2, 2), (4, 5), (4, 5), None, None, 0, 0),
    ]
    assert list(memory.shelve(place([PLAIN]), 2).pages) == list(memory.shelve(place(halves), 2).pages)


def test_use_is_remembered_by_event_and_a_split_may_count_as_one() -> None:
    """What a match ended with was used for sure; what lies before it may have been."""
    memory = Hits()
    path = memory.path([1, 1, 2, 2], 2)
    known = {7: Known(path, 0, 0, 4, False, True)}
    memory.turn(3, memory.shelve(place([PLAIN]), 2), known, [7], [path[-1]], Room(full=2))
    assert (memory.orders.used, memory.orders.surely) == ({path[0]: 3, path[1]: 3}, {path[1]: 3})
    halves = [
        NodeView(4, None, (1, 1), (2, 3), (2, 3), None, None, 0, 0),
        NodeView(1, 4, (2, 2), (4, 5), (4, 5), None, None, 0, 0),
    ]
    memory.turn(5, memory.shelve(place(halves), 2), {}, [], [], Room())
    assert (memory.orders.used, memory.orders.surely) == ({path[0]: 5, path[1]: 5}, {path[1]: 3})
    assert memory.known == {}
