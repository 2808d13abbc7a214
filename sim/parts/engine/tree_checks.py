"""Checks of what the prefix tree says of itself: its counts of tokens, and its own check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...core.divergence import Divergence
from ...targets.engine import NodeView
from ..check import check
from .step import EngineStep

__all__ = ["check_ledgers", "check_sanity"]


class _Count(NamedTuple):
    """A count of the tree's tokens in one pool, recounted from its nodes."""

    pool: str
    evictable: int
    protected: int
    expected: tuple[int, int]


@check("ledgers", order=185)
def check_ledgers(step: EngineStep) -> Divergence | None:
    """Ledgers: the tree counts as evictable the tokens on the device that nothing locks, and as protected the others.

    A tombstone counts in the full pool alone, and a node that is on the host alone in neither. A scheduler admits
    requests by these counts: one that is too high promises slots that no eviction can free, and one that is too low
    keeps requests waiting. Where a tree does not show its SWA locks, the tokens of nodes without any lock are the least
    that it can evict, and both counts together are known.
    """
    for count in _counts(step):
        evictable, protected = count.expected
        if count.evictable != evictable:
            kind = "leak" if count.evictable < evictable else "over-admission"
            what = f"the tree counts {count.evictable} {count.pool} tokens as evictable, and nothing locks {evictable}"
            return step.diverges(kind, what, "a scheduler admits requests by this count")
        if count.protected != protected:
            what = f"the tree counts {count.protected} {count.pool} tokens as protected, and {protected} are locked"
            return step.diverges("leak", what, "a scheduler adds this count up with free slots, and finds a leak")
    return None


def _counts(step: EngineStep) -> Iterator[_Count]:
    found = step.target.raw_ledgers()
    if found is None:
        return
    full = [(node, node.full_locks) for node in step.tree if node.full is not None]
    swa = [(node, node.swa_locks) for node in step.tree if node.swa is not None]
    if all(locks >= 0 for _, locks in full):
        yield _Count("full", found.full_evictable, found.full_protected, (_sum(full, 0), _sum(full, 1)))
    if all(locks >= 0 for _, locks in swa):
        yield _Count("SWA", found.swa_evictable, found.swa_protected, (_sum(swa, 0), _sum(swa, 1)))
        return
    # What has no full lock has no SWA lock either; `check_locks` holds a release to that where both are seen.
    total, least = sum(len(node.tokens) for node, _ in swa), _sum([(node, node.full_locks) for node, _ in swa], 0)
    evictable = min(max(found.swa_evictable, least), total)
    yield _Count("SWA", found.swa_evictable, found.swa_protected, (evictable, total - evictable))


def _sum(nodes: list[tuple[NodeView, int]], locked: int) -> int:
    """Tokens of the nodes that are locked, or that are not."""
    return sum(len(node.tokens) for node, locks in nodes if (locks > 0) == locked)


@check("sanity", order=300)
def check_sanity(step: EngineStep) -> Divergence | None:
    """Sanity: the engine's own check of its tree finds nothing."""
    found = step.target.raw_sanity(idle=not step.requests and not step.target.pending())
    if found is None:
        return None
    return step.diverges("leak", f"the tree's own check fails: {found}", "the engine asserts this of an idle server")
