"""The world of a scheduler with two batches in flight: the results of one are processed while the next one runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .config import END_TOKEN, Config
from .hicache import Fault
from .requests import Phase
from .scheduler import ScheduledRequest, SchedulerWorld

__all__ = ["Flight", "OverlapRequest", "OverlapWorld", "finishing_fault"]


@dataclass
class OverlapRequest(ScheduledRequest):
    """One request. `tokens` are those that have KV, or get it from a batch in flight.

    Attributes:
        sampled: its output tokens as the device has them: the scheduler knows the first `known` of them.
        known: how many of them were among processed results.
        ending: it was aborted, and leaves with its next result.
    """

    sampled: list[int] = field(default_factory=list)
    known: int = 0
    ending: bool = False

    @property
    def ended(self) -> bool:
        """Whether the results so far end it."""
        return self.ending or self.known >= self.most or (self.known > 0 and self.sampled[self.known - 1] == END_TOKEN)


@dataclass
class Flight:
    """A batch that was launched and whose results are not processed.

    Attributes:
        prefill: whether it computes prompts; otherwise it decodes.
        spans: request, start and stop of the tokens that it computes, in its order.
        locs: full locs of the tokens of each span.
        awaited: the requests whose result counts: no chunk in the middle of a prompt, and nobody who left.
        dropped: those whose result counted before they left.
    """

    prefill: bool
    spans: tuple[tuple[int, int, int], ...]
    locs: tuple[tuple[int, ...], ...]
    awaited: list[int]
    dropped: list[int] = field(default_factory=list)

    @property
    def requests(self) -> list[int]:
        """Its requests, in its order."""
        return [number for number, _, _ in self.spans]


class OverlapWorld(SchedulerWorld):
    """Everything that a tape with two batches in flight touches.

    A turn of the scheduler's loop launches a batch, then processes the results of the batch before. Requests arrive and
    are aborted before a turn.

    Attributes:
        flights: the batches in flight, the oldest first.
        due: whether a turn is under way: a batch was launched, and the results of the one before are next.
    """

    in_rounds = False

    def __init__(self, config: Config, aborts_chunked: bool = True) -> None:
        super().__init__(config, aborts_chunked)
        self.flights: list[Flight] = []
        self.due = False

    def overlapped(self, number: int) -> OverlapRequest:
        """A request that is alive."""
        request = self.requests[number]
        assert isinstance(request, OverlapRequest)
        return request

    @property
    def holding(self) -> list[int]:
        """See `SchedulerWorld.holding`."""
        return [number for number, request in self.requests.items() if request.phase is not Phase.WAITING]

    @property
    def idle(self) -> bool:
        """See `SchedulerWorld.idle`."""
        return not self.running and not self.flights

    def submit(self, number: int, tokens: Sequence[int], most: int) -> None:
        """See `SchedulerWorld.submit`."""
        super().submit(number, tokens, most)
        known = self.scheduled(number)
        self.requests[number] = OverlapRequest(
            known.tokens, known.prompt, prefixes=known.prefixes, most=most, asked=known.asked
        )

    def merge(self) -> None:
        """A turn begins: the requests whose prompts the last batch computes decode from now on."""
        ready = [
            number
            for number in self.holding
            if (request := self.requests[number]).phase is Phase.ADMITTED and request.computed == request.prompt
        ]
        if ready and self.running:
            self.saw("merged_in_flight")
        for number in ready:
            self.requests[number].phase = Phase.RUNNING

    def stash(self) -> None:
        """See `SchedulerWorld.stash`."""
        if self.chunked is not None and self.requests[self.chunked].unsaved:
            self.saw("stored_in_flight")
        super().stash()

    def next_token(self, number: int) -> int:
        """The token whose KV a request's decode step computes."""
        request = self.overlapped(number)
        return request.sampled[request.computed - request.asked]

    def completing(self, number: int) -> bool:
        """Whether the results in flight are a request's last."""
        request = self.overlapped(number)
        return any(number in flight.awaited for flight in self.flights) and request.known + 1 >= request.most

    def launch(self, flight: Flight, tokens: Sequence[int]) -> None:
        """A batch is in flight that samples these tokens, one a request."""
        before = self.flights[-1] if self.flights else None
        if before is not None:
            if flight.prefill:
                self.saw("prefilled_in_flight")
            elif not before.prefill and set(flight.requests) < set(before.requests):
                self.saw("filtered_in_flight")
        for number, token in zip(flight.requests, tokens, strict=True):
            if number in flight.awaited:
                self.overlapped(number).sampled.append(token)
                if not flight.prefill and self.requests[number].unsaved:
                    self.saw("decoded_before_result")
        self.flights.append(flight)

    def land(self) -> list[int]:
        """The results of the oldest batch are known; the requests that end with them."""
        flight = self.flights[0]
        if flight.dropped:
            self.saw("result_dropped")
        if any(number in self.requests and not self.scheduled(number).retracted for number in flight.dropped):
            self.saw("number_reused")
        for number in flight.awaited:
            self.overlapped(number).known += 1
        return [number for number in flight.awaited if self.overlapped(number).ended]

    def landed(self) -> None:
        """The results of the oldest batch were processed: requests that ended are gone, prompts are stored."""
        flight = self.flights.pop(0)
        for number in list(flight.awaited):
            request = self.overlapped(number)
            if request.ended:
                self._ended(request, any(number in it.awaited for it in self.flights))
                self.leave(number, aborted=request.ending)
            elif flight.prefill:
                self.checkpoint(number)

    def _ended(self, request: OverlapRequest, in_flight: bool) -> None:
        if not in_flight or request.ending:
            return
        self.saw("filled_in_flight" if request.known >= request.most else "stopped_in_flight")
        if (request.computed - 1) % self.config.page_size == 0:
            self.saw("over_allocated_page")

    def retract(self, number: int) -> None:
        """See `SchedulerWorld.retract`. What the scheduler does not know yet is lost."""
        request = self.overlapped(number)
        if self._drop(number):
            self.saw("retracted_in_flight")
        if request.ending:
            self.saw("retracted_aborted")
        del request.sampled[request.known :]
        kept = request.asked + request.known
        del request.tokens[kept:], request.prefixes[kept:]
        for token in request.sampled[len(request.tokens) - request.asked :]:
            self.append(number, token)
        request.unsaved = False
        super().retract(number)

    def may_finish(self, number: int) -> bool:
        """See `EngineWorld.may_finish`. A request ends with a result."""
        return False

    def result_of(self, number: int) -> str | None:
        """See `EngineWorld.result_of`. Results come with the batch that was launched."""
        return None

    def may_abort(self, number: int) -> bool:
        """See `EngineWorld.may_abort`. A request that runs leaves with its next result."""
        request = self.requests.get(number)
        if request is None or self.due or self.overlapped(number).ending:
            return False
        return number != self.chunked or self.aborts_chunked

    def abort(self, number: int) -> None:
        """See `EngineWorld.abort`."""
        if number in self.waiting or number == self.chunked:
            if number == self.chunked and any(number in it.requests for it in self.flights):
                self.saw("aborted_chunk_in_flight")
            super().abort(number)
            return
        self.overlapped(number).ending = True
        if any(number in it.awaited for it in self.flights):
            self.saw("aborted_in_flight")

    def leave(self, number: int, aborted: bool) -> None:
        """See `EngineWorld.leave`."""
        self._drop(number)
        super().leave(number, aborted)

    def _drop(self, number: int) -> bool:
        """No result of a batch in flight counts for a request any more; whether one would have."""
        found = [flight for flight in self.flights if number in flight.awaited]
        for flight in found:
            flight.awaited.remove(number)
            flight.dropped.append(number)
        return bool(found)


def finishing_fault(world: OverlapWorld, left_out: Sequence[int]) -> Fault | None:
    """The fault in what a decode batch leaves out, or None: each request's last result is in flight."""
    for number in left_out:
        if not world.completing(number):
            return Fault("starvation", f"request {number} does not decode, and its last result is not in flight")
    return None
