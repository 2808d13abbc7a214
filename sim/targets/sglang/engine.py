"""Whole requests against a release's own tree, allocator and scheduler steps. See `EngineTarget`."""

from __future__ import annotations

from typing import Any

import torch

from ....models.config import Config
from ..base import FreeSlots, Rows
from ..engine import Admission, Copying, Ledgers, NodeView, RequestView
from .engine_release import EngineRelease, held, hold_length
from .hicache import HostTier, HostTiers
from .pools import HybridPool
from .settings import SETTINGS
from .tree import view
from .tree_accounts import ledgers, objection

__all__ = ["EngineDriver"]

MAX_REQUESTS = 64


class EngineDriver:
    """Requests in, the release's scheduler steps, locs out. The methods are those of `EngineTarget`.

    Attributes:
        tree: the release's ``UnifiedRadixCache`` or ``SWARadixCache``.
        rows: its ``ReqToTokenPool``.
        requests: admitted requests, each an instance of its ``Req``.
    """

    tree: Any
    rows: Any
    requests: dict[int, Any]
    _host: HostTier | None

    def attach_engine(
        self,
        release: EngineRelease,
        tiers: HostTiers | None,
        config: Config,
        pool: HybridPool,
        kv: Any,
        allocator: Any,
    ) -> None:
        """Build the rest of an engine around an empty pool and allocator, and drive it from now on.

        Args:
            release: the release's code.
            tiers: builds the host tier of a tree; not needed without one.
            config: the shape of the cache.
            pool: the adapter of the KV pool, which built `kv`.
            kv: the release's KV pool.
            allocator: its allocator.
        """
        SETTINGS.serve(config.page_size)
        SETTINGS.speculate(config if "spec" in config.features else None)
        self._config, self._release, self._kv_pool = config, release, pool
        self._kv, self._tokens = kv, allocator
        self.rows = release.rows(MAX_REQUESTS, release.row_width(config))
        # A token attends to itself and to as many before it; the release counts the latter.
        self.tree, params = release.tree(config, self.rows, allocator, max(1, config.window - 1))
        self._host = tiers.attach(config, self.tree, params, kv) if config.host_full_size and tiers else None
        self._view = view(self.tree, release.unified.ComponentType)
        self.requests = {}
        self._forward: list[tuple[int, int, int]] = []

    def admit(self, request: int, tokens: list[int]) -> Admission | None:
        if len(self.requests) == MAX_REQUESTS:
            return None
        entry = self._release.request(request, tokens)
        loaded = self._release.admit(self.tree, entry)
        self._view.walked(tokens)
        if self._host is not None:
            self._host.start_loading()
        if loaded is None:
            return None
        self.requests[request] = entry
        return Admission(self._release.prefix(entry), loaded)

    def prefill(self, request: int, count: int) -> list[int] | None:
        entry = self.requests[request]
        start = self._release.prefix(entry)
        stop = start + count
        if not self._room(self._pages(stop) - self._pages(start), count):
            return None
        self._release.begin_chunk(entry, start, stop)
        batch = self._release.batch_class(self.tree, [entry], (start, stop))
        locs: list[int] = self._release.allocation.alloc_for_extend(batch)[0].tolist()
        hold_length(entry, stop)
        return locs

    def _pages(self, tokens: int) -> int:
        return -(-tokens // self._config.page_size)

    def _room(self, pages: int, tokens: int, requests: int = 1) -> bool:
        """Evict as an allocation of `tokens` tokens of so many requests does, and see whether its pages are there."""
        size = self._config.page_size
        estimate = tokens if size == 1 else tokens + requests * size
        self._release.common.evict_from_tree_cache(self.tree, estimate)
        free: int = min(self._tokens.full_available_size(), self._tokens.swa_available_size())
        return free >= pages * size

    def decode(self, requests: list[int], tokens: list[int]) -> list[int] | None:
        entries = [self.requests[request] for request in requests]
        batch = self._release.batch_class(self.tree, entries)
        if not batch.check_decode_mem():
            return None
        lens = batch.seq_lens.tolist()
        locs: list[int] = self._release.allocation.alloc_for_decode(batch, 1).tolist()
        for entry, length, token in zip(entries, lens, tokens, strict=True):
            entry.decode_batch_idx += 1
            entry.output_ids.append(token)
            hold_length(entry, length + 1)
        return locs

    def _row(self, entry: Any, start: int, stop: int) -> torch.Tensor:
        row: torch.Tensor = self.rows.req_to_token[held(entry, "req_pool_idx"), start:stop].to(torch.int64)
        return row

    def write(self, requests: list[tuple[int, int, int]], layer: int, tags: list[int]) -> None:
        if layer == 0 or requests != self._forward:
            self._forward = list(requests)
            self._kv_pool.begin(self._locs_of(requests), self._tokens, precomputed=False)
        self._kv_pool.write(layer, tags)

    def _locs_of(self, spans: list[tuple[int, int, int]]) -> torch.Tensor:
        """The locs that a forward over these spans writes."""
        return torch.cat([self._row(self.requests[request], start, stop) for request, start, stop in spans])

    def read(self, request: int, start: int, stop: int, layer: int) -> Rows:
        if self._host is not None:
            self._host.await_layer(layer)
        rows: Rows = self._kv_pool.read(layer, self._row(self.requests[request], start, stop), self._tokens)
        return rows

    def checkpoint(self, request: int) -> None:
        entry = self.requests[request]
        self._release.checkpoint(self.tree, entry, held(entry, "kv_committed_len") == len(entry.origin_input_ids))
        self._inserted(entry)

    def evict_window(self, request: int) -> None:
        """See `EngineTarget.evict_window`. The release does nothing before a request's first decode step.

        The release counts from the request's tokens, and it is asked as its overlap scheduler asks, which is the
        default: the token that the last step sampled is not among them yet. So a request may finish right after;
        without overlap, the step that was prepared by this eviction would have to run first.
        """
        entry = self.requests[request]
        steps = entry.decode_batch_idx
        if not steps:
            return
        entry.decode_batch_idx = self._release.window_step(steps)
        try:
            self._release.batch_class(self.tree, [entry]).evict_windows()
        finally:
            entry.decode_batch_idx = steps

    def finish(self, request: int) -> None:
        entry = self.requests.pop(request)
        entry.finished_reason = "length"
        self._release.release(self.tree, entry, insert=True)
        self._inserted(entry)

    def abort(self, request: int) -> None:
        entry = self.requests.pop(request)
        if self._has_row(entry):
            self._release.release(self.tree, entry, insert=False)
        else:
            self._release.unlock(self.tree, entry)

    def begin_results(self, kind: str) -> bool:
        """See `RequestTarget.begin_results`. The release's scheduler opens the group on its allocator."""
        grouped = self._release.results.opens(kind, self._config.decode_tree)
        if grouped:
            self._tokens.free_group_begin()
        return grouped

    def abort_result(self, request: int) -> None:
        """See `RequestTarget.abort_result`."""
        if self._release.results.drops_aborted:
            self.abort(request)
        else:
            self.finish(request)

    def end_results(self) -> None:
        self._tokens.free_group_end()

    def _inserted(self, entry: Any) -> None:
        self._view.walked([*entry.origin_input_ids, *entry.output_ids])
        if self._host is not None:
            self._host.submit()

    @staticmethod
    def _has_row(entry: Any) -> bool:
        if "req_pool_idx" in vars(entry):
            return entry.req_pool_idx is not None
        return entry.kv is not None and entry.kv.req_pool_idx is not None

    def evict(self, full: int, swa: int) -> None:
        self._release.evict(self.tree, full, swa)

    def flush(self) -> None:
        """See `EngineTarget.flush`. An idle device has no transfer left."""
        if self._host is not None:
            self._host.drain()
        self.tree.reset()
        self.rows.clear()
        self._tokens.clear()

    def raw_tree(self) -> list[NodeView]:
        return self._view.nodes()

    def raw_ledgers(self) -> Ledgers | None:
        return ledgers(self.tree)

    def raw_sanity(self, idle: bool) -> str | None:
        return objection(self.tree, idle)

    def raw_requests(self) -> dict[int, RequestView]:
        return {request: self._row_view(entry) for request, entry in self.requests.items()}

    def _row_view(self, entry: Any) -> RequestView:
        if not self._has_row(entry):
            prefix = tuple(self._release.matched(self.tree, entry))
            return RequestView(prefix, len(prefix), 0)
        allocated = held(entry, "kv_allocated_len")
        row = self.rows.req_to_token[held(entry, "req_pool_idx"), :allocated].tolist()
        return RequestView(
            tuple(row),
            held(entry, "cache_protected_len"),
            self._release.evicted(entry),
            overflow=allocated - len(row),
            branch=vars(entry).get("swa_branching_seqlen"),  # from 0.5.20
        )

    def transfer_done(self, count: int) -> None:
        if self._host is not None:
            self._host.run(count)

    def pending(self) -> int:
        return 0 if self._host is None else self._host.pending()

    def raw_host_free(self) -> FreeSlots:
        return FreeSlots([], []) if self._host is None else self._host.free()

    def raw_host_contents(self, layer: int) -> Rows:
        return Rows([], []) if self._host is None else self._host.contents(layer)

    def in_flight(self) -> list[Copying]:
        return [] if self._host is None else self._host.in_flight()
