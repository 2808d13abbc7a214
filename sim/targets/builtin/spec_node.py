"""The builtin target as a decode node whose requests speculate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from ..base import Profile
from ..tags import encode
from .decode_jobs import Job
from .disagg import DISAGG, DisaggEngine
from .requests import Request
from .spec_graphs import SpecGraphEngine
from .speculative import SPEC, Progress
from .tree_nodes import Lock, Node

__all__ = ["SPEC_NODE", "SpecNodeEngine"]

SPEC_NODE = replace(
    DISAGG,
    features=("disagg", "spec"),
    page_sizes=SPEC.page_sizes,
    events=(DISAGG.events | SPEC.events)
    - {"decode", "arrive", "admit", "prefill", "checkpoint", "flush", "transfer_done"},
    spec_versions=SPEC.spec_versions,
)


_UNKNOWN = 0
"""Stands for an output token that is sampled and that nobody has asked for."""


class SpecNodeEngine(DisaggEngine, SpecGraphEngine):
    """`DisaggEngine` and `SpecEngine`, and a `SpecNodeTarget` if the config asks for both."""

    profiles: tuple[Profile, ...] = (*DisaggEngine.profiles, SPEC_NODE)

    def receive_draft(self, layer: int, slots: list[int], tags: list[int]) -> None:
        """See `SpecNodeTarget.receive_draft`."""
        index = torch.tensor(slots, dtype=torch.int64)
        for buffer, rows in zip(self._draft_pool.layer_buffers(layer), encode(tags, self._dtype), strict=False):
            buffer.index_copy_(0, index, rows)

    def prepare_decode(self, requests: list[int]) -> bool:
        """See `SpecNodeTarget`."""
        if self._speculates_on_node:
            self._jobs.running += self._jobs.prebuilt
            self._jobs.prebuilt.clear()
        return super().prepare_decode(requests)

    def retract(self, request: int) -> None:
        """See `DisaggTarget.retract`. The surplus of a step goes first: it has no KV."""
        if self._speculates_on_node:
            self._drop_surplus(self._requests[request], self._progress[request].committed)
            del self._progress[request]
        super().retract(request)

    def accept(self, requests: list[int], paths: Sequence[Sequence[int]], tokens: Sequence[Sequence[int]]) -> None:
        """See `SpeculativeTarget.accept`. On a node a request's tokens end with one that has no KV yet: it is the first
        of those that are accepted now, and the next one takes its place."""
        for request in requests if self._speculates_on_node else ():
            self._requests[request].tokens.pop()
        super().accept(requests, paths, tokens)
        for request in requests if self._speculates_on_node else ():
            self._requests[request].tokens.append(_UNKNOWN)

    # Inside

    @property
    def _speculates_on_node(self) -> bool:
        return self._config.features == SPEC_NODE.features

    def _allocate(self, job: Job, lock: Lock) -> Request:
        running = super()._allocate(job, lock)
        if self._speculates_on_node:
            self._progress[job.number] = Progress(job.committed, job.committed)
        return running

    def _prefix(self, job: Job) -> Node:
        """The end of what the tree has of a prompt, in its keys."""
        if not self._speculates_on_node or not self._config.decode_tree:
            return super()._prefix(job)
        keys = self._keys(job.tokens[: job.prompt - 1])
        return self._tree.match(keys[: self._aligned(len(keys))]).device_node
