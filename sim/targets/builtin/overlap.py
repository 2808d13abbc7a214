"""The builtin scheduler with two batches in flight: it forms the next batch before it knows the results of the last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ....models.config import END_TOKEN, Config
from ..overlap import OVERLAP_CALLS, FlightView, Launched
from ..scheduler import DecodeRound, Grant, PrefillRound
from .requests import Request
from .scheduler import SCHEDULER, SchedulerEngine

__all__ = ["OVERLAP", "OverlapEngine"]

OVERLAP = replace(
    SCHEDULER,
    features=("scheduler", "overlap"),
    events=frozenset(OVERLAP_CALLS),
    unreachable={
        **SCHEDULER.unreachable,
        "left_out_finishing": "a request decodes until its last result is known",
    },
)


@dataclass
class _Batch:
    """Requests that run a step together. The running batch lasts from step to step: requests join it and leave it.

    No list of it is changed in place: a batch in flight has the same ones.

    Attributes:
        prefill: whether its last step computed prompts.
        numbers, entries: its requests.
        lens: how many tokens each has.
        locs: what its last step writes, one request after the other.
        middle: the request whose prompt goes on after it.
    """

    prefill: bool = False
    numbers: list[int] = field(default_factory=list)
    entries: list[Request] = field(default_factory=list)
    lens: list[int] = field(default_factory=list)
    locs: list[int] = field(default_factory=list)
    middle: int | None = None

    def merge(self, other: _Batch) -> None:
        """The requests of another batch join this one."""
        self.numbers = self.numbers + other.numbers
        self.entries = self.entries + other.entries
        self.lens = self.lens + other.lens

    def keep(self, rows: Sequence[int]) -> None:
        """All others leave."""
        if len(rows) == len(self.numbers):
            return
        self.numbers = [self.numbers[row] for row in rows]
        self.entries = [self.entries[row] for row in rows]
        self.lens = [self.lens[row] for row in rows]


@dataclass
class _Flight:
    """A batch as it was launched, and the tokens that it samples."""

    batch: _Batch
    tokens: list[int]


class OverlapEngine(SchedulerEngine):
    """`SchedulerEngine`, and an `OverlapTarget` if the config says so. See there for what the methods mean.

    The device runs batches in order. So a slot may be given to another request while a batch that writes it is in
    flight: whoever gets it writes it later.
    """

    profiles = (*SchedulerEngine.profiles, OVERLAP)

    def build(self, config: Config) -> None:
        """See `Target.build`."""
        super().build(config)
        self._running, self._last = _Batch(), _Batch()
        self._flights: list[_Flight] = []
        self._limits: dict[int, int] = {}
        self._ending: set[int] = set()

    def submit(self, request: int, tokens: list[int], most: int) -> int | None:
        """See `SchedulerTarget.submit`."""
        granted = super().submit(request, tokens, most)
        if granted is not None:
            self._limits[request] = len(tokens) + granted
        return granted

    def launch(self) -> Launched:
        """See `OverlapTarget.launch`. Prompts come before requests that decode."""
        self._join()
        grants = self.prefill_round().grants
        if grants:
            self._last = self._computing(grants)
            return Launched(PrefillRound(grants))
        self._last = self._running
        return Launched(decode=self._step()) if self._running.numbers else Launched()

    def sampled(self, tokens: list[int]) -> None:
        """See `OverlapTarget.sampled`."""
        self._flights.append(_Flight(replace(self._last), tokens))

    def process(self) -> tuple[int, ...]:
        """See `OverlapTarget.process`. What the next batch computes for a request that ends is its last token's KV."""
        flight = self._flights.pop(0)
        batch = flight.batch
        ended = []
        self.begin_results("decode")
        for number, entry, token in zip(batch.numbers, batch.entries, flight.tokens, strict=True):
            if number == batch.middle or not self._stays(number, entry):
                continue
            entry.tokens.append(token)
            if number in self._ending or token == END_TOKEN or len(entry.tokens) >= self._limits[number]:
                self.finish(number)
                ended.append(number)
            elif batch.prefill:
                self.checkpoint(number)
        self.end_results()
        return tuple(ended)

    def finish(self, request: int) -> None:
        """See `EngineTarget.finish`."""
        if not self._overlaps:
            super().finish(request)
            return
        self._ending.discard(request)
        self.checkpoint(request)
        self._release(request)

    def abort(self, request: int) -> None:
        """See `EngineTarget.abort` and `OverlapTarget`."""
        queues = self._queues
        if self._overlaps and request not in queues.waiting and request != queues.chunked:
            self._ending.add(request)
            return
        super().abort(request)

    def raw_flights(self) -> list[FlightView]:
        """See `OverlapTarget.raw_flights`."""
        return [FlightView(tuple(it.batch.numbers), tuple(it.batch.locs), tuple(it.batch.lens)) for it in self._flights]

    # Inside

    @property
    def _overlaps(self) -> bool:
        return "overlap" in self._config.features

    def _stays(self, number: int, entry: Request) -> bool:
        """Whether a request has not left since its batch was formed: another may have its number."""
        return self._requests.get(number) is entry

    def _join(self) -> None:
        """The prompts that the last batch computes to their ends decode from now on; who left is gone."""
        last, running = self._last, self._running
        self._queues.batch.clear()
        if last.prefill:
            last.keep([row for row, number in enumerate(last.numbers) if number != last.middle])
            running.merge(last)
        running.keep([
            row for row, number in enumerate(running.numbers) if self._stays(number, running.entries[row])
        ])  # fmt: skip

    def _computing(self, grants: Sequence[Grant]) -> _Batch:
        """A batch of the prompts that got slots."""
        numbers = [grant.request for grant in grants]
        entries = [self._requests[number] for number in numbers]
        locs = [
            loc
            for grant, it in zip(grants, entries, strict=True)
            for loc in it.locs(it.length - grant.count, it.length)
        ]
        return _Batch(True, numbers, entries, [it.length for it in entries], locs, self._queues.chunked)

    def _step(self) -> DecodeRound:
        """Slots for one more token of each running request. Who joined last is retracted first."""
        batch, retracted = self._running, []
        for number in batch.numbers:
            self.evict_window(number)
        while batch.numbers and self._next_pages() > self._spare_pages():
            number = batch.numbers[-1]
            self._queues.waiting[number] = self._requests[number].tokens
            self._release(number)
            batch.keep(range(len(batch.numbers) - 1))
            retracted.append(number)
        if batch.numbers:
            self._extend_rows(batch)
        return DecodeRound(tuple(batch.numbers), tuple(retracted))

    def _extend_rows(self, batch: _Batch) -> None:
        """Slots for the tokens that the batch before samples."""
        lens = [length + 1 for length in batch.lens]
        self._make_room(batch.lens, lens)
        last = [int(entry.row[length - 1]) for entry, length in zip(batch.entries, batch.lens, strict=True)]
        locs = self._allocator.alloc_decode(lens, last)
        assert locs is not None
        for entry, length, loc in zip(batch.entries, lens, locs, strict=True):
            entry.row[length - 1] = loc
            entry.length = length
        batch.prefill, batch.lens, batch.locs = False, lens, locs

    def _next_pages(self) -> int:
        """Pages that one more token of each running request takes."""
        if not self._overlaps:
            return super()._next_pages()
        return sum(self._config.pages(length + 1) - self._config.pages(length) for length in self._running.lens)

    def _locs_of(self, spans: list[tuple[int, int, int]]) -> list[int]:
        """The locs that a forward over these spans writes: those that the batch holds."""
        return list(self._last.locs) if self._overlaps else super()._locs_of(spans)
