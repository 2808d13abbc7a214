"""Starvation: an idle engine serves the request that waits: nothing runs, and everything else could be evicted."""

from __future__ import annotations

from functools import partial

from .....models.radix import found_whole
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


def _where(step: SchedulerStep, number: int) -> str:
    """How far a request has come, and what its rounds find."""
    request, config = step.world.scheduled(number), step.world.config
    if request.computed:
        return f"after {request.computed} of {request.prompt} tokens"
    cached, _ = found_whole(step.placed, request.tokens[: request.prompt - 1], config.page_size)
    if cached:
        return f"with {request.prompt} tokens, {cached} of them cached"
    return f"with {request.prompt} tokens{'' if config.chunk else ' that are not cut into chunks'}"


def _run(step: SchedulerStep, name: str) -> Divergence | None:
    world = step.world
    if step.stalls < STALLS or step.round is None or step.round.grants or step.target.pending() or name != _case(step):
        return None
    number = world.chunked if world.chunked is not None else world.waiting[0]
    what = f"request {number} waits {_where(step, number)}, nothing runs, and {STALLS + 1} rounds computed none of it"
    size = world.config.page_size
    free = f"{len(step.free.full) * size} full and {len(step.free.swa) * size} SWA slots are free"
    return step.diverges("starvation", name, what, f"{free}; no event can change that, so it waits for ever")


CHECKS = tuple(
    Check(name, partial(_run, name=name), order=200)
    for name in (IN_THE_QUEUE, BETWEEN_CHUNKS, WITHOUT_CACHE, WITHOUT_CHUNKS)
)
