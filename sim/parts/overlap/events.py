"""The two halves of a turn of the overlap scheduler's loop: launch the next batch, process the results of the last.

The loop keeps their order: the results of a batch are processed once, after the launch of the batch that follows it, or
after a launch that found nothing to run. Requests arrive, and are aborted, before a turn (`event_loop_overlap`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....models.config import END_TOKEN
from ....models.hicache import Fault
from ....models.overlap import Flight, finishing_fault
from ....models.scheduler import decode_fault, grant_fault
from ...core.event import Event, Role, Roles, events_in
from ...targets.overlap import Launched
from ..engine.events import EngineEvent, fewer
from ..engine.forwards import run_layers
from ..engine.step import Written
from ..scheduler.events import STALLS
from .step import OverlapStep

__all__ = ["OVERLAP_EVENTS", "Launch", "Process"]


@dataclass(frozen=True)
class Launch(EngineEvent):
    """Form the next batch and launch its forward, which samples `token` for each request, and the token that ends a
    request for those in `stops`."""

    kind = "launch"
    token: int
    stops: tuple[int, ...] = ()

    def roles(self) -> Roles:
        return {"stops": Role.REQUESTS}

    def play(self, step: OverlapStep) -> bool:
        world = step.world
        if world.due or not (world.requests or world.flights):
            return False
        world.merge()
        world.stash()
        step.ran = tuple(world.running)
        asked = bool(world.waiting) or world.chunked is not None
        launched = step.overlap.launch()
        while _nobody(launched) and world.idle and not step.target.pending() and step.stalls < STALLS:
            step.stalls += 1
            launched = step.overlap.launch()
        step.round = launched.prefill if asked else None
        step.decoding = launched.decode
        step.fault = grant_fault(world, launched.prefill.grants) or _decode_fault(step, launched)
        if step.fault is None:
            world.due = bool(world.flights)
            self._run(step, launched)
        return True

    def _run(self, step: OverlapStep, launched: Launched) -> None:
        """Enter the batch in the world, and run its forward."""
        world, grants, done = step.world, launched.prefill.grants, launched.decode
        for grant in grants:
            world.grant(grant.request, grant.cached, grant.loaded, grant.count)
        for number in done.retracted if done is not None else ():
            world.retract(number)
        failed = done.failed if done is not None else ()
        step.given_up_late = tuple(number for number in failed if world.completing(number))
        for number in failed:
            world.leave(number, aborted=True)
        if launched.finishing:
            world.saw("left_out_finishing")
        decoded = done.decoded if done is not None else ()
        for number in decoded:
            world.decoded(number, world.next_token(number))
        counts = {grant.request: grant.count for grant in grants} | dict.fromkeys(decoded, 1)
        spans = [Written(number, (stop := world.requests[number].computed) - n, stop) for number, n in counts.items()]
        if not spans:
            return
        run_layers(step, spans)
        tokens = [END_TOKEN if number in self.stops else self.token for number in counts]
        step.overlap.sampled(tokens)
        locs = tuple(step.requests[number].row[start:stop] for number, start, stop in spans)
        awaited = [number for number in counts if number != world.chunked]
        world.launch(Flight(bool(grants), tuple(spans), locs, awaited), tokens)

    def simpler(self) -> Iterator[Event]:
        yield from fewer(self, "token", 1)
        for i in range(len(self.stops)):
            yield self.changed(stops=self.stops[:i] + self.stops[i + 1 :])


@dataclass(frozen=True)
class Process(EngineEvent):
    """Process the results of the batch that was launched before the last one (``process_batch_result``)."""

    kind = "process"

    def play(self, step: OverlapStep) -> bool:
        world = step.world
        if not world.due:
            return False
        world.due = False
        step.ended = step.overlap.process()
        step.expected = tuple(world.land())
        if sorted(step.ended) == sorted(step.expected):
            world.landed()
        return True


def _nobody(launched: Launched) -> bool:
    return not launched.prefill.grants and launched.decode is None


def _decode_fault(step: OverlapStep, launched: Launched) -> Fault | None:
    """The fault in a decode batch, or None."""
    done = launched.decode
    fault = finishing_fault(step.world, launched.finishing)
    if fault is not None or done is None:
        return fault
    return decode_fault(step.ran, done.decoded, done.retracted, done.failed, launched.finishing)


OVERLAP_EVENTS = events_in(__name__, EngineEvent)
"""Every event type of its own."""
