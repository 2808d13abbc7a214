"""Nodes of the legacy SWA tree, whose SWA locs are read through the mapping."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from staleloc.sim.targets.engine import NodeView
from staleloc.sim.targets.sglang.tree import after, view


def node(number: int, tokens: list[int], full: list[int], *children: Any, tombstone: bool = False) -> Any:
    """A node as the release has it. Its key may be longer than what is meant, as after a split."""
    return SimpleNamespace(
        id=100 + number,
        key=Key(tokens),
        value=torch.tensor(full),
        swa_tombstone=tombstone,
        full_lock_ref=2,
        swa_lock_ref=0 if tombstone else 1,
        children={child.id: child for child in children},
    )


class Key:
    """A key's length is its own affair."""

    def __init__(self, tokens: list[int], is_bigram: bool = False) -> None:
        self.token_ids = [*tokens, 99]
        self.is_bigram = is_bigram
        self._length = len(tokens)

    def __len__(self) -> int:
        return self._length


def tree(mapping: list[int], *children: Any) -> Any:
    """A tree with these children of the root."""
    allocator = SimpleNamespace(full_to_swa_index_mapping=torch.tensor(mapping))
    root = SimpleNamespace(id=100, children={child.id: child for child in children})
    return SimpleNamespace(swa_lru_list=None, root_node=root, token_to_kv_pool_allocator=allocator)


def test_swa_locs_are_the_mappings_and_a_tombstone_has_none() -> None:
    """Parents come before children, and each node has its own part of the key."""
    below = node(3, [7], [5])
    legacy = tree([0, 0, 0, 0, 0, 2, -1], node(1, [7, 8], [3, 4], below, tombstone=True))
    assert view(legacy, None).nodes() == [
        NodeView(1, None, (7, 8), (3, 4), None, None, None, 2, 0),
        NodeView(3, 1, (7,), (5,), (2,), None, None, 2, 1),
    ]


def test_a_node_that_lost_its_swa_slots_and_is_no_tombstone_shows_the_dummy_slot() -> None:
    """So that the check of owners sees a page that nobody may have."""
    (only,) = view(tree([0, 0, 0, 2, -1], node(1, [7, 8], [3, 2])), None).nodes()
    assert only.swa == (2, 0)


def test_a_key_of_pairs_says_what_comes_after_its_tokens() -> None:
    """Of a key of tokens, what lies behind its end means nothing."""
    assert after(Key([7, 8], is_bigram=True)) == 99
    assert after(Key([7, 8])) is None


def test_looking_changes_nothing() -> None:
    """Two looks see the same, and what was inserted need not be told."""
    legacy = tree([0, 1, -1], node(1, [7], [1]))
    looks = view(legacy, None)
    first = looks.nodes()
    looks.walked([7])
    assert looks.nodes() == first
