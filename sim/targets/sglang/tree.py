"""The release's prefix tree as it is, looked at without its accessors."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Protocol

from ..engine import NodeView
from .tree_rust import RustTreeView
from .tree_swa import SwaTreeView, after

__all__ = ["PythonTreeView", "TreeView", "in_rust", "view"]


class TreeView(Protocol):
    """Looks at one tree and changes nothing."""

    def walked(self, tokens: Sequence[int]) -> None:
        """A key with these tokens, or with the first pages of them, was inserted or matched just now: what is new is
        part of it."""

    def nodes(self) -> list[NodeView]:
        """Every node, parents before children."""


def _slots(value: Any) -> tuple[int, ...] | None:
    return None if value is None else tuple(value.tolist())


class PythonTreeView:
    """A tree whose nodes are Python objects.

    Args:
        tree: the object that has ``root_node``.
        kinds: the release's ``ComponentType``.
    """

    def __init__(self, tree: Any, kinds: Any) -> None:
        self._tree = tree
        self._kinds = kinds

    def walked(self, tokens: Sequence[int]) -> None:
        """See `TreeView.walked`. Keys can be read off the nodes."""

    def nodes(self) -> list[NodeView]:
        """See `TreeView.nodes`."""
        views = []
        stack = [(child, None) for child in self._tree.root_node.children.values()]
        while stack:
            node, parent = stack.pop()
            full, swa = node.component_data[self._kinds.FULL], node.component_data[self._kinds.SWA]
            views.append(
                NodeView(
                    node=node.id,
                    parent=parent,
                    tokens=tuple(node.key.token_ids[: len(node.key)]),
                    full=_slots(full.value),
                    swa=_slots(swa.value),
                    host_full=_slots(full.host_value),
                    host_swa=_slots(swa.host_value),
                    full_locks=full.lock_ref,
                    swa_locks=swa.lock_ref,
                    host_locks=full.host_lock_ref + swa.host_lock_ref,
                    after=after(node.key),
                )
            )
            stack.extend((child, node.id) for child in node.children.values())
        return views


def in_rust(tree: Any) -> bool:
    """Whether the core in use is the one in Rust, whatever was asked for."""
    return hasattr(getattr(tree, "tree_core", tree), "_binding")


def view(tree: Any, kinds: Any) -> TreeView:
    """The view that fits a release's tree.

    Args:
        tree: the release's ``UnifiedRadixCache``, with its host tier if it has one, or its ``SWARadixCache``.
        kinds: its ``ComponentType``.
    """
    if hasattr(tree, "swa_lru_list"):
        return SwaTreeView(tree)
    core = getattr(tree, "tree_core", tree)
    if not in_rust(tree):
        return PythonTreeView(core, kinds)
    components: Any = importlib.import_module("sglang.srt.mem_cache.unified_cache.components")
    storage = components.CacheTransferPhase.BACKUP_STORAGE if tree.cache_controller is not None else None
    return RustTreeView(core, kinds, storage, bigram=bool(core.is_eagle))
