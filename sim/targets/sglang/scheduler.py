"""A release's own admission, allocation and retraction behind integers. See `SchedulerTarget`.

The scheduler itself does not run. Its round is put together here: the release's ``PrefillAdder`` over the release's own
requests, its allocation with its own window eviction, its retraction. The order is that of its overlap scheduler, which
is the default: a token that was just sampled is not among the outputs yet.
"""

from __future__ import annotations

from typing import Any

from ....models.config import Config
from ..engine import RequestView
from ..scheduler import MAX_REQUESTS, DecodeRound, Grant, PrefillRound
from .engine_release import hold
from .hicache import HostTiers
from .pools import HybridPool
from .scheduler_release import SchedulerRelease
from .settings import SETTINGS
from .speculative import SpecNodeDriver
from .tree import view

__all__ = ["SchedulerDriver"]


class _Queues:
    """Where requests stand: in the queue, between two chunks, in the prefill batch, in the running batch."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []
        self.chunked: Any = None
        self.fresh = False  # whether the last round computed a chunk of it
        self.batch: list[Any] = []
        self.running: list[Any] = []


class SchedulerDriver(SpecNodeDriver):
    """An engine, or where the config says so a scheduler with its queue and its running batch."""

    _schedule: SchedulerRelease | None = None

    def attach_scheduler(
        self,
        release: SchedulerRelease,
        tiers: HostTiers | None,
        config: Config,
        pool: HybridPool,
        kv: Any,
        allocator: Any,
    ) -> None:
        """Build the rest of an engine around an empty pool and allocator, and schedule its requests from now on.

        Args:
            release: the release's code.
            tiers: builds the host tier of a tree; not needed without one.
            config: the shape of the cache.
            pool: the adapter of the KV pool, which built `kv`.
            kv: the release's KV pool.
            allocator: its allocator.
        """
        self.without_spec()
        SETTINGS.serve_scheduler(config)
        self._config, self._release, self._kv_pool = config, release.engine, pool
        self._kv, self._tokens, self._node = kv, allocator, None
        self.rows = release.engine.rows(MAX_REQUESTS, release.engine.row_width(config))
        self.tree, params = release.tree(config, self.rows, allocator)
        self._host = tiers.attach(config, self.tree, params, kv) if config.host_full_size and tiers else None
        self._keeps = config.prefix_cache
        if self._keeps:
            self._view = view(self.tree, release.engine.unified.ComponentType)
        self.requests, self._forward = {}, []
        self._schedule, self._queues = release, _Queues()
        self._ratio = release.ratio(config)

    def attach_engine(self, *parts: Any) -> None:
        """See `EngineDriver.attach_engine`."""
        self._schedule = None
        super().attach_engine(*parts)

    def attach_node(self, *parts: Any) -> None:
        """See `DisaggDriver.attach_node`."""
        self._schedule = None
        super().attach_node(*parts)

    @property
    def schedule(self) -> SchedulerRelease:
        """The release's code for scheduling."""
        assert self._schedule is not None
        return self._schedule

    def aborts_chunked(self) -> bool:
        """See `SchedulerTarget.aborts_chunked`."""
        return self.schedule.aborts_chunked

    def submit(self, request: int, tokens: list[int], most: int) -> int | None:
        """See `SchedulerTarget.submit`."""
        granted = self.schedule.accepted(self._config, self._tokens, len(tokens), most)
        if granted is not None:
            entry = self._release.request(request, tokens)
            entry.sampling_params.max_new_tokens = granted
            entry.sampling_params.ignore_eos = False
            self._queues.waiting.append(entry)
        return granted

    def prefill_round(self) -> PrefillRound:
        """See `SchedulerTarget.prefill_round`."""
        self._begin()
        queues = self._queues
        adder = self._adder(self.schedule.batch(self.tree, queues.running))
        queues.batch = list(adder.can_run_list)
        if not queues.batch:
            return PrefillRound()
        self._taken(adder)
        if self._host is not None:
            self._host.start_loading()
        return PrefillRound(tuple(self._allocate(queues.batch)))

    def _adder(self, running: Any) -> Any:
        """An adder that has looked at the request between two chunks and at those that wait, beside a running batch."""
        queues, schedule = self._queues, self.schedule
        adder = schedule.adder(self._config, self.tree, running, self._ratio.current, len(queues.waiting))
        before = queues.chunked
        if before is not None:
            before.init_next_round_input()
            queues.chunked = adder.add_chunked_req(before)
        self._admit(adder)
        return adder

    def _taken(self, adder: Any) -> None:
        """The requests that an adder took wait no more, and one of them may be between two chunks."""
        queues = self._queues
        queues.waiting = [entry for entry in queues.waiting if entry not in adder.can_run_list]
        if adder.new_chunked_req is not None:
            assert queues.chunked is None
            queues.chunked = adder.new_chunked_req
        queues.fresh = queues.chunked in adder.can_run_list

    def _begin(self) -> None:
        """The scheduler looks for its next batch: a chunk that was computed is stored."""
        queues = self._queues
        chunked = queues.chunked
        if chunked is not None and (queues.fresh or self.schedule.stores_again):
            self._release.checkpoint(self.tree, chunked, last=False)
            self._inserted(chunked)
        queues.fresh = False
        if not queues.running:
            self._ratio.reset()

    def _admit(self, adder: Any) -> None:
        """Waiting requests in order, until the adder takes no more."""
        schedule, queues = self.schedule, self._queues
        for entry in queues.waiting:
            if schedule.spent(adder) or len(queues.running) + len(adder.can_run_list) >= MAX_REQUESTS:
                return
            entry.init_next_round_input(self.tree)
            if self._keeps:
                self._view.walked(entry.origin_input_ids + entry.output_ids)
            if not schedule.add(adder, entry, queues.chunked is not None):
                return

    def _allocate(self, entries: list[Any]) -> list[Grant]:
        """Slots for a batch, by the release's own allocation and eviction."""
        release = self._release
        starts = [release.prefix(entry) for entry in entries]
        stops = [self.schedule.end(entry) for entry in entries]
        batch = self.schedule.batch(self.tree, entries, list(zip(starts, stops, strict=True)))
        release.allocation.alloc_for_extend(batch)
        for entry, stop in zip(entries, stops, strict=True):
            entry.extend_batch_idx += 1
            entry.is_retracted = False
            for name in ("kv_committed_len", "kv_allocated_len"):
                hold(entry, name, stop)
        return self._granted(entries, starts, stops)

    def _granted(self, entries: list[Any], starts: list[int], stops: list[int]) -> list[Grant]:
        """Requests of a prefill batch have their slots."""
        grants = []
        for entry, start, stop in zip(entries, starts, stops, strict=True):
            number = int(entry.rid)
            loaded = 0 if number in self.requests else self.schedule.loaded(entry)
            self.requests[number] = entry
            grants.append(Grant(number, start, loaded, stop - start))
        return grants

    def prefilled(self) -> None:
        """See `SchedulerTarget.prefilled`."""
        queues = self._queues
        for entry in queues.batch:
            if entry is not queues.chunked:
                self._release.checkpoint(self.tree, entry, last=True)
                self._inserted(entry)
                queues.running.append(entry)
        queues.batch = []

    def decode_round(self, token: int) -> DecodeRound:
        """See `SchedulerTarget.decode_round`."""
        self._begin()
        queues = self._queues
        batch = self.schedule.batch(self.tree, queues.running)
        retracted: list[Any] = []
        failed: list[Any] = []
        if batch.check_decode_mem():
            self._ratio.decay_step()
        else:
            retracted, self._ratio.current, failed = self.schedule.retract(batch)
        queues.running = batch.reqs
        queues.waiting += retracted
        for entry in (*retracted, *failed):
            del self.requests[int(entry.rid)]
        if queues.running:
            self._append(self.schedule.batch(self.tree, queues.running), token)
        parts = (queues.running, retracted, failed)
        return DecodeRound(*(tuple(int(entry.rid) for entry in entries) for entries in parts))

    def _append(self, batch: Any, token: int) -> None:
        """Slots for one more token of each request; the token is known to the scheduler only afterwards."""
        lens = batch.seq_lens.tolist()
        self._release.allocation.alloc_for_decode(batch, 1)
        for entry, length in zip(batch.reqs, lens, strict=True):
            entry.decode_batch_idx += 1
            entry.output_ids.append(token)
            for name in ("kv_committed_len", "kv_allocated_len"):
                hold(entry, name, length + 1)

    def finish(self, request: int) -> None:
        """See `EngineTarget.finish`."""
        if self._schedule is not None:
            self._queues.running.remove(self.requests[request])
        super().finish(request)

    def abort(self, request: int) -> None:
        """See `EngineTarget.abort` and `SchedulerTarget`. A request that waits holds nothing."""
        if self._schedule is not None:
            if request not in self.requests:
                self._queues.waiting = [entry for entry in self._queues.waiting if int(entry.rid) != request]
                return
            self._queues.chunked = None
        super().abort(request)

    def raw_requests(self) -> dict[int, RequestView]:
        """See `EngineTarget.raw_requests`."""
        if self._schedule is None:
            return super().raw_requests()
        return {request: self._row_view(entry) for request, entry in self.requests.items() if self._has_row(entry)}
