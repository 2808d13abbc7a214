"""The release's prefix tree as it is, looked at without its accessors."""

from __future__ import annotations

from typing import Any

from staleloc.sim.targets.engine import NodeView

__all__ = ["view_nodes"]


def _slots(value: Any) -> tuple[int, ...] | None:
    return None if value is None else tuple(value.tolist())


def view_nodes(tree: Any, kinds: Any) -> list[NodeView]:
    """Every node of a tree whose nodes are Python objects, parents before children.

    Args:
        tree: the object that has ``root_node``.
        kinds: the release's ``ComponentType``.
    """
    root = tree.root_node
    views = []
    stack = [(child, None) for child in root.children.values()]
    while stack:
        node, parent = stack.pop()
        full, swa = node.component_data[kinds.FULL], node.component_data[kinds.SWA]
        views.append(
            NodeView(
                node=node.id,
                parent=parent,
                tokens=tuple(node.key.token_ids),
                full=_slots(full.value),
                swa=_slots(swa.value),
                host_full=_slots(full.host_value),
                host_swa=_slots(swa.host_value),
                full_locks=full.lock_ref,
                swa_locks=swa.lock_ref,
            )
        )
        stack.extend((child, node.id) for child in node.children.values())
    return views
