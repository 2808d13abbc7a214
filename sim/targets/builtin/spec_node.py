"""The builtin target as a decode node whose requests speculate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from ..base import Profile
from ..speculative import SPEC_CALLS
from ..tags import encode
from .decode_jobs import Job
from .disagg import DISAGG
from .graph_engine import GraphEngine
from .host_node import HostNode, hosted
from .requests import Request
from .spec_graphs import SPEC_GRAPHS, SpecGraphEngine
from .speculative import SPEC, Progress
from .tree_nodes import Lock

__all__ = ["SpecNodeEngine"]

SPEC_NODE = replace(
    DISAGG,
    features=("disagg", "spec"),
    events=DISAGG.events.union(SPEC_CALLS) - {"decode"},
    spec_versions=SPEC.spec_versions,
)

_GRAPH_NODE = replace(
    DISAGG,
    features=("disagg", "graphs"),
    policies=SPEC_GRAPHS.policies,
    events=DISAGG.events | {"capture", "replay"},
)

_SPEC_GRAPH_NODE = replace(
    SPEC_NODE,
    features=("disagg", "spec", "graphs"),
    policies=SPEC_GRAPHS.policies,
    events=SPEC_NODE.events | {"capture"},
)

_NODES = (SPEC_NODE, _GRAPH_NODE, _SPEC_GRAPH_NODE)

NODES: tuple[Profile, ...] = (
    *_NODES,
    *(hosted(node) for node in (DISAGG, *_NODES)),
)
"""Decode nodes with more features, and all of them with a host tier."""

_UNKNOWN = 0
"""Stands for an output token that is sampled and not known here yet."""


class SpecNodeEngine(HostNode, SpecGraphEngine):
    """A decode node, `SpecEngine` and `GraphEngine`, and a `SpecGraphNodeTarget` if the config asks for all of it.

    A request's job has the tokens that the scheduler knows, of which the newest has no KV; the request itself has those
    with KV.
    """

    profiles: tuple[Profile, ...] = (*GraphEngine.profiles, DISAGG, SPEC, SPEC_GRAPHS, *NODES)

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
        """See `SpeculativeTarget.accept`."""
        super().accept(requests, paths, tokens)
        if self._speculates_on_node and not self._config.spec_ahead:
            self._tell(requests)

    def commit(self, requests: list[int]) -> None:
        """See `SpeculativeTarget.commit`."""
        super().commit(requests)
        if self._speculates_on_node:
            self._tell(requests)

    # Inside

    @property
    def _speculates_on_node(self) -> bool:
        return {"disagg", "spec"} <= set(self._config.features)

    def _tell(self, requests: list[int]) -> None:
        """The scheduler knows what these requests have committed, and that there is a token after it."""
        for request in requests:
            known = self._requests[request].tokens[: self._progress[request].committed]
            self._jobs.find(request).tokens = [*known, _UNKNOWN]

    def _allocate(self, job: Job, lock: Lock) -> Request:
        running = super()._allocate(job, lock)
        if self._speculates_on_node:
            running.tokens = job.tokens[: job.committed]
            self._progress[job.number] = Progress(job.committed, job.committed)
        return running
