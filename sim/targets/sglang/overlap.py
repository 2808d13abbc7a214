"""A release's overlap scheduler behind integers: its own batches, its own processing of results.

The loop itself does not run. A turn of it is put together here: ``get_next_batch_to_run``, the forward, then
``process_batch_result`` of the batch before. Batches are formed, merged, filtered and retracted by the release's own
``ScheduleBatch``, and last from turn to turn as they do there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..overlap import FlightView, Launched
from ..scheduler import DecodeRound, Grant, PrefillRound
from .overlap_release import OverlapRelease
from .scheduler import SchedulerDriver

__all__ = ["OverlapDriver"]


@dataclass
class _Flight:
    """A batch in flight.

    Attributes:
        results: the batch's own copy, with which its results are processed.
        locs, lens: the tensors that its forward holds.
        tokens: what it samples.
    """

    results: Any
    locs: torch.Tensor
    lens: torch.Tensor
    tokens: list[int]


class OverlapDriver(SchedulerDriver):
    """A scheduler, or where the config says so one with two batches in flight. See `OverlapTarget`."""

    _overlap: OverlapRelease | None = None

    def attach_overlap(self, release: OverlapRelease) -> None:
        """Drive the scheduler that was just built by the halves of the overlap loop's turns."""
        self._overlap = release
        self._processor = release.processor(self.tree, self._inserted)
        self._running: Any = release.empty()
        self._last: Any = None
        self._flights: list[_Flight] = []

    def without_overlap(self) -> None:
        """What is built next is driven otherwise."""
        self._overlap = None

    @property
    def overlap(self) -> OverlapRelease:
        """The release's code for two batches in flight."""
        assert self._overlap is not None
        return self._overlap

    def submit(self, request: int, tokens: list[int], most: int) -> int | None:
        """See `SchedulerTarget.submit`."""
        granted = super().submit(request, tokens, most)
        if granted is not None and self._overlap is not None:
            self._overlap.accept(self._queues.waiting[-1], granted)
        return granted

    def launch(self) -> Launched:
        """See `OverlapTarget.launch`."""
        queues = self._queues
        queues.running = self._running.reqs
        self._begin()
        self._join()
        grants = self._next_prompts()
        if grants:
            return Launched(PrefillRound(tuple(grants)))
        if self._running.is_empty():
            self._last = None
            return Launched()
        return self._next_step()

    def _join(self) -> None:
        """The prompts of the last batch join the running batch."""
        last, release = self._last, self.overlap
        if last is not None and last.forward_mode.is_extend():
            excluded = [it for it in (self._queues.chunked, last.chunked_req) if it is not None]
            release.exclude(last, excluded)
            if not last.is_empty():
                if self._running.is_empty():
                    self._running = last
                else:
                    self._running.merge_batch(last)
        if release.filters_always:
            self._running.filter_batch()
        self._queues.running = self._running.reqs

    def _next_prompts(self) -> list[Grant]:
        """The next prefill batch, with its slots (``get_new_batch_prefill``)."""
        queues, schedule, release = self._queues, self.schedule, self.overlap
        if not queues.waiting and queues.chunked is None:
            return []
        adder = self._adder(self._running)
        batch = list(adder.can_run_list)
        if not batch:
            return []
        self._taken(adder)
        if queues.chunked is not None:
            release.in_chunks(queues.chunked)
        if self._host is not None:
            self._host.start_loading()
        starts = [self._release.prefix(entry) for entry in batch]
        stops = [schedule.end(entry) for entry in batch]
        self._last = release.prefill(self.tree, batch, queues.chunked)
        return self._granted(batch, starts, stops)

    def _next_step(self) -> Launched:
        """The next decode step, with its slots (``update_running_batch``)."""
        running, release, queues = self._running, self.overlap, self._queues
        finishing: list[Any] = []
        if release.skips_finishing and self._flights:
            queued = self._flights[-1].results.reqs
            finishing = [it for it in running.reqs if it in queued and it.next_output_finishes_by_length()]
        release.exclude(running, finishing)
        left_out = tuple(int(entry.rid) for entry in finishing)
        self._last = None
        if running.is_empty():
            return Launched(decode=DecodeRound(), finishing=left_out)
        retracted: list[Any] = []
        failed: list[Any] = []
        if running.check_decode_mem():
            self._ratio.decay_step()
        elif finishing:
            return Launched(finishing=left_out)
        else:
            retracted, self._ratio.current, failed = self.schedule.retract(running)
        queues.waiting += retracted
        for entry in (*retracted, *failed):
            del self.requests[int(entry.rid)]
        if not running.is_empty():
            running.prepare_for_decode()
            self._last = running
        parts = (running.reqs, retracted, failed)
        done = DecodeRound(*(tuple(int(entry.rid) for entry in entries) for entries in parts))
        return Launched(decode=done, finishing=left_out)

    def sampled(self, tokens: list[int]) -> None:
        """See `OverlapTarget.sampled`."""
        batch = self._last
        self.overlap.launched(batch, tokens)
        self._flights.append(_Flight(batch.copy(), batch.out_cache_loc, batch.seq_lens, tokens))

    def process(self) -> tuple[int, ...]:
        """See `OverlapTarget.process`."""
        flight = self._flights.pop(0)
        batch = flight.results
        alive: list[Any] = [entry for entry in batch.reqs if self.requests.get(int(entry.rid)) is entry]
        kind = "prefill" if batch.forward_mode.is_extend() else "decode"
        getattr(self._processor, f"process_batch_result_{kind}")(batch, self.overlap.result(flight.tokens))
        ended = [int(entry.rid) for entry in alive if entry.finished()]
        for number in ended:
            del self.requests[number]
        return tuple(ended)

    def abort(self, request: int) -> None:
        """See `EngineTarget.abort` and `OverlapTarget`."""
        entry = self.requests.get(request)
        if self._overlap is None or entry is None:
            super().abort(request)
        elif entry is self._queues.chunked:
            self._overlap.aborted(entry)
            super().abort(request)
        else:
            self._overlap.to_abort(entry)

    def _locs_of(self, spans: list[tuple[int, int, int]]) -> torch.Tensor:
        """The locs that a forward over these spans writes: those that the batch holds."""
        if self._overlap is None:
            return super()._locs_of(spans)
        locs: torch.Tensor = self._last.out_cache_loc.to(torch.int64)
        return locs

    def raw_flights(self) -> list[FlightView]:
        """See `OverlapTarget.raw_flights`."""
        return [
            FlightView(
                tuple(int(entry.rid) for entry in it.results.reqs), tuple(it.locs.tolist()), tuple(it.lens.tolist())
            )
            for it in self._flights
        ]
