"""The legacy tree ``SWARadixCache`` as it is. Each node has full locs; its SWA locs are the mapping's, unless it is a
tombstone.

So a node's SWA locs cannot differ from the mapping here. Other checks see the faults: a node that is no tombstone and
has no SWA slots shows slot 0, and one whose SWA slots were given away shows the new owner's slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..engine import NodeView

__all__ = ["SwaTreeView", "after"]


def after(key: Any) -> int | None:
    """Where a key is of pairs of tokens, the second token of its last pair."""
    return int(key.token_ids[len(key)]) if key.is_bigram else None


class SwaTreeView:
    """See `TreeView`.

    Args:
        tree: the release's ``SWARadixCache``.
    """

    def __init__(self, tree: Any) -> None:
        self._tree = tree
        # The release numbers nodes through all trees of a process; names must not tell what was played before.
        self._first: int = tree.root_node.id

    def walked(self, tokens: Sequence[int]) -> None:
        """See `TreeView.walked`. Keys can be read off the nodes."""

    def nodes(self) -> list[NodeView]:
        """See `TreeView.nodes`. There is no host tier."""
        mapping = self._tree.token_to_kv_pool_allocator.full_to_swa_index_mapping
        views = []
        stack = [(child, None) for child in self._tree.root_node.children.values()]
        while stack:
            node, parent = stack.pop()
            views.append(
                NodeView(
                    node=node.id - self._first,
                    parent=parent,
                    tokens=tuple(node.key.token_ids[: len(node.key)]),
                    full=tuple(node.value.tolist()),
                    swa=None if node.swa_tombstone else tuple(mapping[node.value].tolist()),
                    host_full=None,
                    host_swa=None,
                    full_locks=node.full_lock_ref,
                    swa_locks=node.swa_lock_ref,
                    after=after(node.key),
                )
            )
            stack.extend((child, node.id - self._first) for child in node.children.values())
        return views
