"""The expected prefix tree: page-aligned, distinct keys, and locks that running requests account for.

The target chooses the nodes. The model adopts the tree and judges it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Protocol

__all__ = ["Node", "Placed", "found_whole", "place", "structure_fault", "wanted_locks"]


class Node(Protocol):
    """The facts of a node that the model needs; see `staleloc.sim.targets.engine.NodeView`."""

    @property
    def node(self) -> int: ...
    @property
    def parent(self) -> int | None: ...
    @property
    def tokens(self) -> tuple[int, ...]: ...
    @property
    def full(self) -> tuple[int, ...] | None: ...
    @property
    def swa(self) -> tuple[int, ...] | None: ...
    @property
    def host_full(self) -> tuple[int, ...] | None: ...
    @property
    def host_swa(self) -> tuple[int, ...] | None: ...
    @property
    def full_locks(self) -> int: ...


@dataclass(frozen=True)
class Placed:
    """A node with the tokens from the root to its start."""

    node: Node
    before: tuple[int, ...]

    @property
    def path(self) -> tuple[int, ...]:
        """All tokens from the root to its end."""
        return self.before + self.node.tokens


def place(nodes: Sequence[Node]) -> list[Placed]:
    """The nodes with their places; parents come before children.

    Raises:
        KeyError: a node's parent is not in the tree.
    """
    paths: dict[int | None, tuple[int, ...]] = {None: ()}
    placed = []
    for node in nodes:
        item = Placed(node, paths[node.parent])
        paths[node.node] = item.path
        placed.append(item)
    return placed


def found_whole(placed: Sequence[Placed], tokens: Sequence[int], page_size: int) -> tuple[int, list[tuple[Node, int]]]:
    """How many of these tokens, in whole pages, the device has in both pools from the first one on; and the nodes that
    hold them, each with its number of tokens. Every engine's match finds at least as many."""
    known, held = tuple(tokens), 0
    path: list[tuple[Node, int]] = []
    for item in placed:
        if len(item.before) != held or item.before != known[:held]:
            continue
        pairs = zip(item.node.tokens, known[held:], strict=False)
        alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)) // page_size * page_size
        if alike and item.node.full is not None and item.node.swa is not None:
            path.append((item.node, alike))
            held += alike
            if alike < len(item.node.tokens):
                break
    return held, path


def structure_fault(nodes: Sequence[Node], page_size: int) -> str | None:
    """The fault in the tree's shape, or None."""
    children: dict[int | None, set[tuple[int, ...]]] = {}
    off_device = {node.node for node in nodes if node.full is None}
    for node in nodes:
        if not node.tokens or len(node.tokens) % page_size:
            return f"node {node.node} has a key of {len(node.tokens)} tokens; keys are whole pages of {page_size}"
        first = node.tokens[:page_size]
        siblings = children.setdefault(node.parent, set())
        if first in siblings:
            return f"two children of one node start with the same page {first}"
        siblings.add(first)
        for name in ("full", "swa", "host_full", "host_swa"):
            slots = getattr(node, name)
            if slots is not None and len(slots) != len(node.tokens):
                return f"node {node.node} has {len(slots)} {name} slots for {len(node.tokens)} tokens"
        if node.full is None and node.swa is not None:
            return f"node {node.node} has SWA slots without full slots"
        if node.full is None and node.host_full is None:
            return f"node {node.node} is neither on the device nor on the host"
        if node.full is not None and node.parent in off_device:
            return f"node {node.node} is on the device, and its parent, node {node.parent}, is not"
    return None


def wanted_locks(
    placed: Sequence[Placed], shared: Mapping[int, Iterable[int]], since: Mapping[int, int] | None = None
) -> dict[int, int]:
    """How many requests need each node: those whose shared tokens lead through it.

    Args:
        shared: request -> its tokens that belong to the tree.
        since: request -> the first token it needs; nodes of which it shares nothing from there on do not count.
            0 unless given.
    """
    first = since or {}
    paths = [(tuple(tokens), first.get(number, 0)) for number, tokens in shared.items()]
    wanted = {}
    for item in placed:
        start, stop = len(item.before), len(item.path)
        wanted[item.node.node] = sum(
            len(path) > start and min(stop, len(path)) > needed and path[:stop] == item.path[: len(path)]
            for path, needed in paths
        )
    return wanted
