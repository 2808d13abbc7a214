"""The prefix tree: matches, splits and locks, over slots that are only numbers here."""

from __future__ import annotations

import pytest

from staleloc.sim.targets.builtin.tree import PrefixTree
from staleloc.sim.targets.builtin.tree_nodes import Node


def cached(tree: PrefixTree, parent: Node, tokens: str, first: int, swa: bool = True, host: bool = False) -> Node:
    """A node with slots numbered from `first` on."""
    node = tree.add(parent, [ord(token) for token in tokens])
    slots = list(range(first, first + len(tokens)))
    node.full = list(slots)
    node.swa = list(slots) if swa else None
    if host:
        node.host_full, node.host_swa = list(slots), list(slots)
    return node


def key(tokens: str) -> list[int]:
    return [ord(token) for token in tokens]


def test_a_match_follows_whole_pages() -> None:
    """What differs inside a page does not match, and the node is not split there."""
    tree = PrefixTree(page_size=2, window=2)
    node = cached(tree, tree.root, "abcd", 2)
    assert tree.match(key("abcx")).node.tokens == tuple(key("ab"))
    assert node.tokens == tuple(key("cd"))
    assert tree.match(key("axcd")).node is tree.root


def test_a_split_shares_out_every_kind_of_slots() -> None:
    """The first half goes to a new parent, and the node keeps its name and its end."""
    tree = PrefixTree(page_size=1, window=2)
    node = cached(tree, tree.root, "abc", 1, host=True)
    name, end = node.name, node.end
    front = tree.split(node, 1)
    assert (front.full, front.swa, front.host_full, front.host_swa) == ([1], [1], [1], [1])
    assert (node.full, node.swa, node.host_full, node.host_swa) == ([2, 3], [2, 3], [2, 3], [2, 3])
    assert (node.name, node.end, node.start, node.parent) == (name, end, 1, front)


def test_a_split_leaves_a_tombstone_a_tombstone() -> None:
    """Slots that are not there are not there in either half."""
    tree = PrefixTree(page_size=1, window=2)
    node = cached(tree, tree.root, "abc", 1, swa=False)
    front = tree.split(node, 2)
    assert front.swa is None
    assert node.swa is None


def test_a_match_ends_where_the_window_has_swa_rows() -> None:
    """A tombstone inside the window ends it there, one further up does not."""
    tree = PrefixTree(page_size=1, window=2)
    top = cached(tree, tree.root, "a", 1)
    tombstone = cached(tree, top, "b", 2, swa=False)
    near = cached(tree, tombstone, "c", 3)
    far = cached(tree, near, "d", 4)
    assert tree.match(key("ab")).node is top
    assert tree.match(key("abc")).node is top
    assert tree.match(key("abcd")).node is far


def test_a_path_without_tombstones_matches_at_any_length() -> None:
    """A prefix shorter than the window is complete in itself."""
    tree = PrefixTree(page_size=1, window=8)
    node = cached(tree, tree.root, "ab", 1)
    assert tree.match(key("ab")).node is node


def test_rows_on_the_host_count_for_the_longer_match_only() -> None:
    """The device part of a match needs nothing to be loaded."""
    tree = PrefixTree(page_size=1, window=1)
    top = cached(tree, tree.root, "a", 1)
    below = cached(tree, top, "b", 2, host=True)
    below.full = below.swa = None
    match = tree.match(key("ab"))
    assert (match.node, match.device_node) == (below, top)


def test_swa_rows_on_the_host_can_serve_full_rows_on_the_device() -> None:
    """A tombstone whose SWA rows have a backup is usable after a load-back."""
    tree = PrefixTree(page_size=1, window=1)
    node = cached(tree, tree.root, "a", 1, swa=False)
    node.host_swa = [7]
    match = tree.match(key("a"))
    assert (match.node, match.device_node) == (node, tree.root)


def test_a_lock_holds_full_slots_to_the_root_and_swa_slots_in_the_window() -> None:
    """Ancestors outside the window are locked for their full slots only, and all of it is given up again."""
    tree = PrefixTree(page_size=1, window=2)
    top = cached(tree, tree.root, "a", 1)
    middle = cached(tree, top, "b", 2)
    last = cached(tree, middle, "c", 3)
    lock = tree.lock(last, tree.window_start(last))
    assert [(node.full_locks, node.swa_locks) for node in (top, middle, last)] == [(1, 0), (1, 1), (1, 1)]
    tree.unlock(lock)
    assert [(node.full_locks, node.swa_locks) for node in (top, middle, last)] == [(0, 0)] * 3


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_lock_survives_a_split_of_any_of_its_nodes(at: int) -> None:
    """A node split while it is locked is unlocked in both halves, and an unlocked ancestor stays so."""
    tree = PrefixTree(page_size=1, window=2)
    top = cached(tree, tree.root, "abcd", 1)
    last = cached(tree, top, "e", 5)
    lock = tree.lock(last, tree.window_start(last))
    front = tree.split(top, at)
    assert (front.full_locks, front.swa_locks) == (1, 1)
    tree.unlock(lock)
    assert [(node.full_locks, node.swa_locks) for node in tree.nodes()] == [(0, 0)] * 3


def test_a_window_that_moved_on_gives_its_nodes_up_once() -> None:
    """Nodes that end before the position lose the SWA lock and keep the full lock until the end."""
    tree = PrefixTree(page_size=1, window=3)
    nodes = [cached(tree, tree.root, "a", 1)]
    for first, token in enumerate("bc", 2):
        nodes.append(cached(tree, nodes[-1], token, first))
    lock = tree.lock(nodes[-1], tree.window_start(nodes[-1]))
    for _ in range(2):
        tree.release_window(lock, 2)
        assert [node.swa_locks for node in nodes] == [0, 0, 1]
    tree.unlock(lock)
    assert [(node.full_locks, node.swa_locks) for node in nodes] == [(0, 0)] * 3


def test_the_window_starts_no_earlier_than_what_was_evicted() -> None:
    """Tombstones that a request itself left are not part of what it locks."""
    tree = PrefixTree(page_size=1, window=4)
    tombstone = cached(tree, tree.root, "ab", 1, swa=False)
    last = cached(tree, tombstone, "cd", 3)
    assert tree.window_start(last) == 0
    assert tree.window_start(last, evicted=2) == 2


def test_the_least_recently_used_node_comes_first() -> None:
    """A match makes its path the most recent; of one path the node nearest the root is older."""
    tree = PrefixTree(page_size=1, window=1)
    first = cached(tree, tree.root, "a", 1)
    second = cached(tree, first, "b", 2)
    other = cached(tree, tree.root, "c", 3)
    tree.match(key("c"))
    tree.match(key("ab"))
    assert tree.oldest(lambda node: True) is other
    assert tree.oldest(lambda node: node is not other) is first
    assert tree.oldest(lambda node: node is second) is second
    assert tree.oldest(lambda node: False) is None
