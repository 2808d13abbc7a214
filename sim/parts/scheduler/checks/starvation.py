"""Starvation: an idle engine serves the request that waits: nothing runs, and everything else could be evicted."""

from __future__ import annotations

from ....core.divergence import Divergence
from ...check import Check
from ..events import STALLS
from ..step import SchedulerStep

__all__ = ["CHECK"]


def _run(step: SchedulerStep) -> Divergence | None:
    world = step.world
    if step.stalls < STALLS or step.round is None or step.round.grants or step.target.pending():
        return None
    number = world.chunked if world.chunked is not None else world.waiting[0]
    request, config = world.scheduled(number), world.config
    where = f"after {request.computed} of {request.prompt} tokens" if request.computed else "in the queue"
    what = (
        f"request {number} of {request.prompt} tokens waits {where}, nothing runs, and {STALLS + 1} rounds grant it none"
    )
    free = f"{len(step.free.full) * config.page_size} full and {len(step.free.swa) * config.page_size} SWA slots are free"
    return step.diverges(CHECK.name, CHECK.name, what, f"{free}; no event can change that, so it waits for ever")


CHECK = Check("starvation", _run, order=200)
