"""The speculative runner: a draft's graph and the target's, which verifies it, over one set of static buffers.

The draft model has a pool of its own, in which its tokens lie at the locs that the allocator gives out for
the target; so both read the same mapping, and whatever the policy remembers of it serves both.
"""

from __future__ import annotations

from collections.abc import Sequence

from .device import Device
from .graph_buffers import GraphBuffers
from .pools import HybridPool, KvPool
from .runners import Standard

__all__ = ["Speculative"]


class Speculative:
    """Draft and verification of the same tokens, each through a graph of its own.

    Args:
        pool: the target's.
        draft_pool: the draft's, with the same mapping and policy.
    """

    def __init__(self, pool: KvPool, draft_pool: HybridPool, buffers: GraphBuffers, device: Device) -> None:
        self.draft_pool = draft_pool
        self.target = Standard(pool, buffers, device)
        self.draft = Standard(draft_pool, buffers, device)

    def capture(self, size: int) -> None:
        """Capture both for `size` tokens."""
        self.target.capture(size)
        self.draft.capture(size)

    def run_draft(self, locs: Sequence[int], tags: Sequence[Sequence[int]]) -> None:
        """Run the draft; see `Runner.run`."""
        self.draft.run(locs, tags)

    def run_verify(self, locs: Sequence[int], tags: Sequence[Sequence[int]]) -> None:
        """Run the target on a draft's tokens. They may lie elsewhere by now: they were allocated again."""
        self.target.run(locs, tags)
