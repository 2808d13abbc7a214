"""A release's decode node behind integers. See `DisaggTarget`."""

from __future__ import annotations

from typing import Any

import torch

from ....models.config import Config
from ..base import TargetError
from ..disagg import Preallocated, Preallocation, Queues, Rules
from ..engine import Ledgers, NodeView, RequestView
from .disagg_node import DecodeNode
from .disagg_release import DecodeRelease
from .engine import EngineDriver
from .pools import HybridPool
from .settings import SETTINGS
from .tree import view

__all__ = ["DisaggDriver"]


class DisaggDriver(EngineDriver):
    """An engine, or where the config says so a decode node: its requests come with their prompt's KV.

    The methods are those of `DisaggTarget`.
    """

    _node: DecodeNode | None = None
    _keeps: bool = True  # whether there is a prefix tree

    def attach_engine(self, *parts: Any) -> None:
        self._node, self._keeps = None, True
        super().attach_engine(*parts)

    def attach_node(self, release: DecodeRelease, config: Config, pool: HybridPool, kv: Any, allocator: Any) -> None:
        """Build the rest of a decode node around an empty pool and allocator, and drive it from now on.

        Args:
            release: the release's code.
            config: the shape of the cache.
            pool: the adapter of the KV pool, which built `kv`.
            kv: the release's KV pool.
            allocator: its allocator.
        """
        SETTINGS.serve_decode(config.page_size, config.decode_tree)
        self._config, self._release, self._kv_pool = config, release.engine, pool
        self._kv, self._tokens, self._decode_release = kv, allocator, release
        self.rows = release.rows(config)
        self.tree = release.tree(config, self.rows, allocator)
        self._host = None
        self._keeps = config.decode_tree
        if self._keeps:
            self._view = view(self.tree, release.engine.unified.ComponentType)
        self.requests = {}
        self._forward = []
        self._node = DecodeNode(release, config, self.rows, self.tree, allocator, self._inserted)

    @property
    def node(self) -> DecodeNode:
        """The decode node that was built last."""
        if self._node is None:
            raise TargetError("the cache that was built is no decode node")
        return self._node

    def rules(self) -> Rules:
        return self._decode_release.rules(self._config.decode_tree)

    def enqueue(self, request: int, tokens: list[int], most: int) -> bool:
        entry = self.node.request(request, tokens, most)
        if not self.node.add(entry):
            return False
        self.requests[request] = entry
        return True

    def preallocate(self) -> Preallocated:
        admitted, failed = self.node.preallocate()
        for entry in failed:
            del self.requests[int(entry.req.rid)]
        told = [(entry.req, entry.kv_receiver) for entry in admitted]
        return Preallocated(
            tuple(Preallocation(int(entry.rid), sent.cached, sent.full, sent.swa) for entry, sent in told),
            tuple(int(entry.req.rid) for entry in failed),
        )

    def receive(self, layer: int, slots: list[int], tags: list[int]) -> None:
        self._kv_pool.receive(layer, torch.tensor(slots, dtype=torch.int64), tags)

    def arrived(self, request: int, token: int) -> None:
        self.node.arrived(self.requests[request], token)

    def start(self) -> None:
        self.node.start()

    def evict_window(self, request: int) -> None:
        """See `EngineDriver.evict_window`. On a decode node too the newest token is not counted."""
        if self._node is None:
            super().evict_window(request)
            return
        output = self.requests[request].output_ids
        newest = output.pop()
        try:
            super().evict_window(request)
        finally:
            output.append(newest)

    def retract(self, request: int) -> None:
        if not self.node.retract(self.requests[request]):
            del self.requests[request]

    def resume(self) -> list[int]:
        return [int(entry.rid) for entry in self.node.resume()]

    def draft_slots(self, requests: list[int], count: int) -> None:
        """See `DisaggTarget.draft_slots`. In the order of the release's EAGLE worker."""
        batch = self._release.batch_class(self.tree, [self.requests[request] for request in requests])
        lens = batch.seq_lens
        pages = sum(self._pages(length + count) - self._pages(length) for length in lens.tolist())
        room = min(self._tokens.full_available_size(), self._tokens.swa_available_size())
        if pages * self._config.page_size > room:
            return
        common, total = self._release.common, count * len(requests)
        if self._config.page_size == 1:
            _, state = common.alloc_token_slots(self.tree, total, backup_state=True)
        else:
            last = [self._row(entry, stop - 1, stop) for entry, stop in zip(batch.reqs, lens.tolist(), strict=True)]
            _, state = common.alloc_paged_token_slots_extend(
                self.tree, lens, lens, lens + count, lens + count, torch.cat(last), total, backup_state=True
            )
        self._tokens.restore_state(state)

    def finish(self, request: int) -> None:
        if self._node is not None:
            self._node.leave(self.requests[request])
        super().finish(request)

    def abort(self, request: int) -> None:
        if self._node is None or not self._node.abort(self.requests[request]):
            super().abort(request)
        else:
            self._inserted(self.requests.pop(request))

    def _inserted(self, entry: Any) -> None:
        if self._keeps:
            super()._inserted(entry)

    def raw_queues(self) -> Queues:
        node = self.node
        standing = (
            [entry.req for entry in node.prealloc.queue],
            [entry.req for entry in node.transfer.queue],
            node.scheduler.waiting_queue,
            (),
            node.scheduler.running_batch.reqs,
            node.prealloc.retracted_queue,
        )
        return Queues(*(tuple(int(entry.rid) for entry in entries) for entries in standing))

    def raw_uses_tail(self) -> bool:
        return bool(self.node.prealloc._uses_swa_tail_prealloc())

    def raw_tail(self, length: int) -> int:
        return int(self.node.prealloc._swa_tail_len(length))

    def raw_lengths(self, request: int) -> tuple[int, int]:
        full, swa = self.node.prealloc._prealloc_kv_lens(self.requests[request])
        return int(full), int(swa)

    def raw_required(self, request: int) -> tuple[int, int]:
        full, swa = self.node.prealloc._prealloc_required_tokens(self.requests[request])
        return int(full), int(swa)

    def raw_retractable(self, request: int) -> int:
        return int(self.node.prealloc._swa_retractable_len(self.requests[request]))

    def raw_active(self) -> int:
        return int(self.node.prealloc._active_req_count())

    def raw_budgets(self, resuming: bool) -> tuple[int, int]:
        return self.node.budgets(resuming)

    def raw_budgets_beside(self, requests: list[int]) -> tuple[int, int]:
        return self.node.budgets_beside([self.requests[request] for request in requests])

    def raw_saved(self) -> dict[int, tuple[bool, ...]]:
        masks = {int(entry.rid): self.node.saved(entry) for entry in self.node.prealloc.retracted_queue}
        return {request: mask for request, mask in masks.items() if mask is not None}

    def raw_tree(self) -> list[NodeView]:
        return super().raw_tree() if self._keeps else []

    def raw_ledgers(self) -> Ledgers | None:
        return super().raw_ledgers() if self._keeps else None

    def raw_sanity(self, idle: bool) -> str | None:
        return super().raw_sanity(idle) if self._keeps else None

    def raw_requests(self) -> dict[int, RequestView]:
        if self._node is None:
            return super().raw_requests()
        return {request: self._row_view(entry) for request, entry in self.requests.items() if self._has_row(entry)}
