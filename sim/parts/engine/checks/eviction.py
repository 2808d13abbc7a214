"""Eviction: a tree that gave up less than it was asked for has nothing left that it could give up."""

from __future__ import annotations

from ....core.divergence import Divergence
from ....targets.engine import NodeView
from ...check import Check
from ..step import EngineStep

__all__ = ["CHECK"]


def _run(step: EngineStep) -> Divergence | None:
    owed = step.owed
    if owed is None or max(owed) <= 0 or step.target.pending():
        return None
    inner = {node.parent for node in step.tree if node.full is not None}
    for node in step.tree:
        if node.full is None:
            continue
        leaf = node.node not in inner and not node.full_locks
        for pool, tokens, could in (
            ("full", owed[0], leaf),
            ("SWA", owed[1], node.swa is not None and (leaf or _swa_unlocked(node))),
        ):
            if tokens > 0 and could:
                what = f"the tree still owes {tokens} {pool} tokens and kept node {node.node}, which nothing locks"
                return step.diverges("leak", CHECK.name, what, "a node that nobody uses can not be evicted")
    return None


def _swa_unlocked(node: NodeView) -> bool:
    """Whether nobody locks its SWA slots; where such locks cannot be seen, whether nobody locks it at all."""
    return node.swa_locks == 0 or (node.swa_locks < 0 and not node.full_locks)


CHECK = Check("eviction", _run, order=240)
