"""What a check of two batches in flight is given: a step of a scheduler, and what became of the batches."""

from __future__ import annotations

from dataclasses import dataclass, field

from ....models.overlap import OverlapWorld
from ...core.event import Event
from ...targets.overlap import OverlapTarget
from ..scheduler.step import SchedulerStep

__all__ = ["OverlapStep", "step_of"]


@dataclass
class OverlapStep(SchedulerStep):
    """One event of a scheduler with two batches in flight.

    Attributes:
        overlap: the target.
        ended: the requests that the target says ended with the results that were processed; None if none were.
        expected: those that the model says.
        given_up_late: requests that were given up although the results in flight were their last.
    """

    world: OverlapWorld
    overlap: OverlapTarget = field(kw_only=True)
    ended: tuple[int, ...] | None = None
    expected: tuple[int, ...] = ()
    given_up_late: tuple[int, ...] = ()


def step_of(index: int, event: Event, world: OverlapWorld, target: OverlapTarget) -> OverlapStep:
    """The step of an event that is about to be played."""
    return OverlapStep(index, event, world, target, scheduler=target, overlap=target)
