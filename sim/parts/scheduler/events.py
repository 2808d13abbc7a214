"""What a scheduler does that admits by its own budgets.

As at the engine level, an event that does not apply is skipped. `Finish`, `Abort` and `TransferDone` are that level's.
A request that runs may finish at any time; one that waits or is between two chunks may be aborted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....models.scheduler import decode_fault, grant_fault
from ...core.event import Event, events_in
from ...targets.scheduler import MAX_REQUESTS, Grant
from ..engine.events import EngineEvent, fewer, plain_prompt, shorter_prompts
from ..engine.forwards import run_layers
from ..engine.step import Written
from .step import SchedulerStep

__all__ = ["SCHEDULER_EVENTS", "STALLS", "DecodeRound", "PrefillRound", "Submit"]

STALLS = 3
"""Rounds in a row that come to nothing on an idle engine until it stands still: each may find what the one before it
has changed."""


@dataclass(frozen=True)
class Submit(EngineEvent):
    """A request with this prompt and for `most` new tokens at most arrives."""

    kind = "submit"
    request: int
    tokens: tuple[int, ...]
    most: int

    def play(self, step: SchedulerStep) -> bool:
        world = step.world
        if self.request in world.requests or len(world.requests) >= MAX_REQUESTS or self.most < 1 or world.due:
            return False
        if not 1 < len(self.tokens) <= world.config.full_size:
            return False
        granted = step.scheduler.submit(self.request, list(self.tokens), self.most)
        if granted is None:
            world.saw("rejected")
        else:
            world.submit(self.request, self.tokens, granted)
        return True

    def simpler(self) -> Iterator[Event]:
        yield from shorter_prompts(self)
        yield from fewer(self, "most", 1, self.most // 2, self.most - 1)
        yield from plain_prompt(self)


@dataclass(frozen=True)
class PrefillRound(EngineEvent):
    """A round of admission, and the forward of its batch (``get_new_batch_prefill``)."""

    kind = "prefill_round"

    def play(self, step: SchedulerStep) -> bool:
        world = step.world
        if not world.in_rounds or (not world.waiting and world.chunked is None):
            return False
        _begin(step)
        step.round = step.scheduler.prefill_round()
        while not step.round.grants and world.idle and not step.target.pending() and step.stalls < STALLS:
            step.stalls += 1
            step.round = step.scheduler.prefill_round()
        step.fault = grant_fault(world, step.round.grants)
        if step.fault is not None:
            return True
        spans = [_granted(step, grant) for grant in step.round.grants]
        if spans:
            run_layers(step, spans)
            step.scheduler.prefilled()
            for span in spans:
                if span.request != world.chunked:
                    world.checkpoint(span.request)
        return True


@dataclass(frozen=True)
class DecodeRound(EngineEvent):
    """A step of the running batch, each request appends `token`; some are retracted first if the pools are short
    (``update_running_batch``)."""

    kind = "decode_round"
    token: int

    def play(self, step: SchedulerStep) -> bool:
        world = step.world
        if not world.in_rounds or not world.running:
            return False
        _begin(step)
        if not step.ran:
            return True
        step.decoding = done = step.scheduler.decode_round(self.token)
        step.fault = decode_fault(step.ran, done.decoded, done.retracted, done.failed)
        if step.fault is not None:
            return True
        for number in done.retracted:
            world.retract(number)
        for number in done.failed:
            world.leave(number, aborted=True)
        spans = []
        for number in done.decoded:
            world.decoded(number, self.token)
            spans.append(Written(number, (stop := world.requests[number].computed) - 1, stop))
        if spans:
            run_layers(step, spans)
        return True

    def simpler(self) -> Iterator[Event]:
        yield from fewer(self, "token", 1)


def _granted(step: SchedulerStep, grant: Grant) -> Written:
    """Enter a request of the batch in the world; the span of its tokens that the forward computes."""
    step.world.grant(grant.request, grant.cached, grant.loaded, grant.count)
    stop = step.world.requests[grant.request].computed
    return Written(grant.request, stop - grant.count, stop)


def _begin(step: SchedulerStep) -> None:
    """A round begins: requests that have all their tokens are done, and the last chunk is stored."""
    world = step.world
    for number in world.running:
        if world.scheduled(number).done:
            step.target.finish(number)
            world.leave(number, aborted=False)
    world.stash()
    step.ran = tuple(world.running)


SCHEDULER_EVENTS = events_in(__name__, EngineEvent)
"""Every event type of its own."""
