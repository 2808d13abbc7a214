"""The world of a scheduler that admits by its own budgets: a queue, one prompt between two chunks, a running batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .config import Config
from .engine import EngineWorld
from .hicache import Fault
from .requests import Phase, Request

__all__ = ["Granted", "ScheduledRequest", "SchedulerWorld", "decode_fault", "grant_fault"]


class Granted(Protocol):
    """A request of a prefill batch; see `staleloc.sim.targets.scheduler.Grant`."""

    @property
    def request(self) -> int: ...
    @property
    def cached(self) -> int: ...
    @property
    def loaded(self) -> int: ...
    @property
    def count(self) -> int: ...


@dataclass
class ScheduledRequest(Request):
    """One request. A retraction makes its output tokens part of what is computed again: its prompt grows.

    Attributes:
        most: output tokens at most, as the server accepted them.
        asked: tokens that it arrived with.
        retracted: it was retracted and has not been admitted again.
    """

    most: int = 1
    asked: int = 0
    retracted: bool = False

    @property
    def done(self) -> bool:
        """Whether its last output token is known: the newest one is sampled and has no KV yet."""
        return len(self.tokens) - self.asked + 1 >= self.most


class SchedulerWorld(EngineWorld):
    """Everything that a tape with a scheduler touches.

    Attributes:
        waiting: the requests that wait for slots, in the order of the queue.
        chunked: the request whose prompt is computed in part.
        aborts_chunked: whether a scheduler like the target's aborts a request between two chunks.
        in_rounds: whether a batch is computed and its results are processed before the next one is formed.
        due: whether the scheduler's loop is in the middle of a turn, where no request arrives.
    """

    in_rounds = True
    due = False

    def __init__(self, config: Config, aborts_chunked: bool = True) -> None:
        super().__init__(config)
        self.waiting: list[int] = []
        self.chunked: int | None = None
        self.aborts_chunked = aborts_chunked

    def scheduled(self, number: int) -> ScheduledRequest:
        """A request that is alive."""
        request = self.requests[number]
        assert isinstance(request, ScheduledRequest)
        return request

    @property
    def running(self) -> list[int]:
        """The requests that decode."""
        return [number for number, request in self.requests.items() if request.phase is Phase.RUNNING]

    @property
    def holding(self) -> list[int]:
        """The requests that hold slots: those that run, and the one between two chunks."""
        return [*self.running, *([] if self.chunked is None else [self.chunked])]

    @property
    def idle(self) -> bool:
        """Whether nothing runs that could give slots up: only a request between two chunks may hold some."""
        return not self.running

    def submit(self, number: int, tokens: Sequence[int], most: int) -> None:
        """A request waits that may have `most` output tokens."""
        self.arrive(number, list(tokens))
        known = self.requests[number]
        self.requests[number] = ScheduledRequest(
            known.tokens, known.prompt, prefixes=known.prefixes, most=most, asked=len(tokens)
        )
        self.waiting.append(number)

    def stash(self) -> None:
        """A round begins: the last chunk, if a prompt is computed in part, is in the tree."""
        if self.chunked is not None and self.requests[self.chunked].unsaved:
            self.checkpoint(self.chunked)

    def grant(self, number: int, cached: int, loaded: int, count: int) -> None:
        """A round admits a waiting request with `cached` tokens from the cache, `loaded` of them from the host, or goes
        on with the one between two chunks; and it computes the next `count` tokens."""
        if number == self.chunked:
            self.saw("chunk_continued")
        else:
            self.waiting.remove(number)
            if self.scheduled(number).retracted:
                self.saw("readmitted")
                self.scheduled(number).retracted = False
            self.admit(number, cached)
            if cached > loaded:
                self.saw("prefix_hit")
            if loaded:
                self.saw("host_hit")
        self.computed(number, count)
        partial = self.requests[number].computed < self.requests[number].prompt
        if partial:
            self.chunked = number
        elif number == self.chunked:
            self.chunked = None

    def retract(self, number: int) -> None:
        """A running request gave up everything, and waits again behind the others."""
        request = self.scheduled(number)
        request.phase, request.computed, request.prompt = Phase.WAITING, 0, len(request.tokens)
        request.retracted = True
        self.waiting.append(number)

    def may_evict_window(self, number: int) -> bool:
        """See `EngineWorld.may_evict_window`. Rounds evict windows, and nobody else does."""
        return False

    def may_abort(self, number: int) -> bool:
        """See `EngineWorld.may_abort`. A running request that is aborted ends like one that is done."""
        return number in self.waiting or (number == self.chunked and self.aborts_chunked)

    def abort(self, number: int) -> None:
        """See `EngineWorld.abort`."""
        self.saw("aborted_chunked" if number == self.chunked else "aborted_waiting")
        super().abort(number)

    def leave(self, number: int, aborted: bool) -> None:
        """See `EngineWorld.leave`."""
        if number in self.waiting:
            self.waiting.remove(number)
        if number == self.chunked:
            self.chunked = None
        super().leave(number, aborted)


def grant_fault(world: SchedulerWorld, grants: Sequence[Granted]) -> Fault | None:
    """The fault in a prefill batch, or None: each request of it waited or is between two chunks, takes whole pages from
    the cache, and computes one token at least; one prompt at most stays in part, and the batch is no longer than a
    chunk."""
    named: set[int] = set()
    partial: set[int] = set() if world.chunked is None else {world.chunked}
    for grant in grants:
        known = grant.request in world.waiting or grant.request == world.chunked
        if grant.request in named or not known:
            return Fault("over-admission", f"request {grant.request} is in the batch and does not wait")
        named.add(grant.request)
        prompt = world.requests[grant.request].prompt
        fault = _cached_fault(world, grant, prompt)
        if fault is not None:
            return fault
        ends = grant.cached + grant.count == prompt
        partial = partial - {grant.request} if ends else partial | {grant.request}
    if len(partial) > 1:
        return Fault("over-admission", f"requests {min(partial)} and {max(partial)} are both computed in part")
    count, chunk = sum(grant.count for grant in grants), world.config.chunk
    if count > chunk > 0:
        return Fault("over-admission", f"the batch computes {count} tokens, and a chunk has {chunk} at most")
    if partial and not chunk:
        return Fault(
            "over-admission", f"request {min(partial)} is computed in part, and prompts are not cut into chunks"
        )
    return None


def _cached_fault(world: SchedulerWorld, grant: Granted, prompt: int) -> Fault | None:
    what = f"request {grant.request} of {prompt} tokens was given {grant.cached} from the cache"
    if grant.request == world.chunked:
        computed = world.requests[grant.request].computed
        if grant.cached != computed:
            return Fault(
                "out-of-bounds", f"request {grant.request} has {computed} tokens and goes on at {grant.cached}"
            )
    elif grant.cached % world.config.page_size:
        return Fault("misaligned", f"{what}; it is whole pages of {world.config.page_size}")
    if grant.count < 1 or grant.cached + grant.count > prompt:
        return Fault("out-of-bounds", f"{what} and computes {grant.count}")
    if grant.loaded > grant.cached:
        return Fault("out-of-bounds", f"{what} and {grant.loaded} from the host alone")
    return None


def decode_fault(ran: Sequence[int], *parts: Sequence[int]) -> Fault | None:
    """The fault in a decode round, or None: each request that ran decoded, was retracted, or was given up."""
    named = sorted(number for part in parts for number in part)
    if named != sorted(ran):
        return Fault("leak", f"requests {named} came out of a decode round of {sorted(ran)}")
    return None
