"""A release's decode node whose requests speculate. See `SpecNodeTarget`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ....models.config import Config
from .disagg import DisaggDriver
from .disagg_release import DecodeRelease
from .engine_batch import held
from .hybrid import HybridPool
from .spec_release import SpecRelease
from .speculative import VOCABULARY, Progress, SpecDriver

__all__ = ["SpecNodeDriver"]

_UNKNOWN = 0
"""Stands for an output token that is sampled and not known here yet."""

_NO_END = 1 << 20
"""New tokens that no tape comes to."""


class SpecNodeDriver(SpecDriver, DisaggDriver):
    """A decode node, an engine that speculates, or where the config says so both.

    On a node ``output_ids`` end with a token that the scheduler knows and that has no KV yet. The first one comes with
    the prompt, and is node 0 of the first step.
    """

    def attach_spec_node(
        self,
        release: DecodeRelease,
        spec: SpecRelease,
        draft_pool: HybridPool,
        config: Config,
        pool: HybridPool,
        kv: Any,
        allocator: Any,
    ) -> None:
        """Build the rest of a decode node around an empty pool and allocator, and give it a draft model's pool.

        Args:
            release: the release's code for decode nodes.
            spec: its code for speculative decode.
            draft_pool: the adapter of the draft's pool, which shares nothing with the target's.
            config: the shape of the cache.
            pool: the adapter of the KV pool, which built `kv`.
            kv: the release's KV pool.
            allocator: its allocator.

        Raises:
            TargetError: the release has no such way to give slots to a draft.
        """
        spec.check(config)
        self.without_spec()
        self.attach_draft(spec, draft_pool, config, allocator)
        self.attach_node(release, config, pool, kv, allocator)

    @property
    def _speculates_on_node(self) -> bool:
        return self._node is not None and self._spec is not None

    def enqueue(self, request: int, tokens: list[int], most: int) -> bool:
        """See `DisaggTarget.enqueue`."""
        if not super().enqueue(request, tokens, most):
            return False
        self.requests[request].vocab_size = VOCABULARY
        return True

    def receive_draft(self, layer: int, slots: list[int], tags: list[int]) -> None:
        """See `SpecNodeTarget.receive_draft`."""
        self._draft_pool.receive(layer, torch.tensor(slots, dtype=torch.int64), tags)

    def start(self) -> None:
        """See `DisaggTarget.start`."""
        super().start()
        if not self._speculates_on_node:
            return
        for entry in self.node.scheduler.running_batch.reqs:
            self._progress.setdefault(int(entry.rid), Progress(held(entry, "kv_committed_len")))

    def accept(self, requests: list[int], paths: Sequence[Sequence[int]], tokens: Sequence[Sequence[int]]) -> None:
        """See `SpeculativeTarget.accept`. Where the release itself appends what was accepted (V1), that is what comes
        after each node of the path. It would stop at the most tokens that a request may have; here the tape says when a
        request is done."""
        if not self._speculates_on_node or self._config.spec_ahead:
            super().accept(requests, paths, tokens)
            return
        limits = [self.requests[request].sampling_params for request in requests]
        most = [limit.max_new_tokens for limit in limits]
        for request, known, limit in zip(requests, tokens, limits, strict=True):
            self.requests[request].output_ids[-1] = known[0]
            limit.max_new_tokens = _NO_END
        super().accept(requests, paths, [[*known[1:], _UNKNOWN] for known in tokens])
        for limit, count in zip(limits, most, strict=True):
            limit.max_new_tokens = count

    def commit(self, requests: list[int]) -> None:
        """See `SpeculativeTarget.commit`."""
        if not self._speculates_on_node:
            super().commit(requests)
            return
        for request in requests:
            entry = self.requests[request]
            entry.output_ids.pop()
            self._forget_copy(entry)
        super().commit(requests)
        for request in requests:
            self.requests[request].output_ids.append(_UNKNOWN)

    @staticmethod
    def _forget_copy(entry: Any) -> None:
        """Let a request copy its tokens anew.

        From 0.5.22 an insertion calls ``refresh_fill_ids``, which appends the new outputs to a copy: a scheduler's
        outputs never change. `_UNKNOWN` does, and ``_pre_alloc`` copies it when a request resumes (all releases).
        """
        copied = getattr(entry, "full_untruncated_fill_ids", None)
        if copied:
            entry.full_untruncated_fill_ids = copied[:0]

    def retract(self, request: int) -> None:
        """See `SpecNodeTarget`."""
        self._drop_step(request)
        super().retract(request)

    @contextmanager
    def _knowing_the_bonus(self, entries: list[Any]) -> Iterator[None]:
        """On a node the scheduler knows it already."""
        with super()._knowing_the_bonus(entries):
            outputs = [entry.output_ids.pop() for entry in entries] if self._speculates_on_node else []
            try:
                yield
            finally:
                for entry, output in zip(entries, outputs, strict=False):
                    entry.output_ids.append(output)
