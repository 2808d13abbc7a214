"""An idle engine that stands still: which of its requests waits for ever, and in which kind of server."""

from __future__ import annotations

from ....models.radix import found_whole
from ...core.divergence import Divergence
from .events import STALLS
from .step import SchedulerStep

__all__ = ["BETWEEN_CHUNKS", "IN_THE_QUEUE", "WITHOUT_CACHE", "WITHOUT_CHUNKS", "stands_still"]

IN_THE_QUEUE = "starvation"
BETWEEN_CHUNKS = "starvation-between-chunks"
WITHOUT_CACHE = "starvation-without-cache"
WITHOUT_CHUNKS = "starvation-without-chunks"
"""Names of checks. Each of them sees separate bugs."""


def stands_still(step: SchedulerStep, name: str) -> Divergence | None:
    """The divergence of this check, if the event left an idle engine that serves nobody and the case is the check's."""
    world = step.world
    if step.stalls < STALLS or step.round is None or step.round.grants or step.target.pending() or name != _case(step):
        return None
    number = world.chunked if world.chunked is not None else world.waiting[0]
    what = f"request {number} waits {_where(step, number)}, nothing runs, and {STALLS + 1} rounds computed none of it"
    size = world.config.page_size
    free = f"{len(step.free.full) * size} full and {len(step.free.swa) * size} SWA slots are free"
    return step.diverges("starvation", name, what, f"{free}; no event can change that, so it waits for ever")


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
