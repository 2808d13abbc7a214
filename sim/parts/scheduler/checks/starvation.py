"""Starvation: an idle engine serves the request that waits: nothing runs, and everything else could be evicted."""

from __future__ import annotations

from functools import partial

from ....core.divergence import Divergence
from ...check import Check
from ..events import STALLS
from ..step import SchedulerStep

__all__ = ["BETWEEN_CHUNKS", "CHECKS", "IN_THE_QUEUE", "WITHOUT_CACHE", "WITHOUT_CHUNKS"]

IN_THE_QUEUE = "starvation"
BETWEEN_CHUNKS = "starvation-between-chunks"
WITHOUT_CACHE = "starvation-without-cache"
WITHOUT_CHUNKS = "starvation-without-chunks"
"""Names: who waits, and in which kind of server. Each is a separate bug."""


def _case(step: SchedulerStep) -> str:
    config = step.world.config
    if not config.chunk:
        return WITHOUT_CHUNKS
    if not config.prefix_cache:
        return WITHOUT_CACHE
    return IN_THE_QUEUE if step.world.chunked is None else BETWEEN_CHUNKS


def _run(step: SchedulerStep, name: str) -> Divergence | None:
    world = step.world
    if step.stalls < STALLS or step.round is None or step.round.grants or step.target.pending() or name != _case(step):
        return None
    number = world.chunked if world.chunked is not None else world.waiting[0]
    request, size = world.scheduled(number), world.config.page_size
    where = (
        f"after {request.computed} of {request.prompt} tokens" if request.computed else f"with {request.prompt} tokens"
    )
    what = f"request {number} waits {where}, nothing runs, and {STALLS + 1} rounds computed none of it"
    free = f"{len(step.free.full) * size} full and {len(step.free.swa) * size} SWA slots are free"
    return step.diverges("starvation", name, what, f"{free}; no event can change that, so it waits for ever")


CHECKS = tuple(
    Check(name, partial(_run, name=name), order=200)
    for name in (IN_THE_QUEUE, BETWEEN_CHUNKS, WITHOUT_CACHE, WITHOUT_CHUNKS)
)
