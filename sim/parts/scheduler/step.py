"""What a check of scheduling is given: an engine-level step, and what a round came to."""

from __future__ import annotations

from dataclasses import dataclass, field

from ....models.hicache import Fault
from ....models.scheduler import SchedulerWorld
from ...core.event import Event
from ...targets.scheduler import DecodeRound, PrefillRound, SchedulerTarget
from ..engine.step import EngineStep

__all__ = ["SchedulerStep", "step_of"]


@dataclass
class SchedulerStep(EngineStep):
    """One event of a scheduler after the target has executed it.

    Attributes:
        scheduler: the target.
        round: the result of a prefill round; None if the event was none.
        decoding: the result of a decode round; None if the event was none.
        ran: the running batch when the round began.
        fault: what is wrong with the result of the round; the world did not take it over.
        stalls: rounds in a row that came to nothing on an idle engine, with the first request that waits.
    """

    world: SchedulerWorld
    scheduler: SchedulerTarget = field(kw_only=True)
    round: PrefillRound | None = None
    decoding: DecodeRound | None = None
    ran: tuple[int, ...] = ()
    fault: Fault | None = None
    stalls: int = 0

    @property
    def has_tree(self) -> bool:
        """Whether a driver may evict from the tree. Here rounds do, and nobody else."""
        return False


def step_of(index: int, event: Event, world: SchedulerWorld, target: SchedulerTarget) -> SchedulerStep:
    """The step of an event that is about to be played."""
    return SchedulerStep(index, event, world, target, scheduler=target)
