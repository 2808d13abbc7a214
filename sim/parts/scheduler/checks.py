"""Checks of a scheduler: what its rounds come to, and whether an idle engine goes on."""

from __future__ import annotations

from ....models.radix import found_whole
from ...core.divergence import Divergence
from ..check import check
from .events import STALLS
from .step import SchedulerStep

__all__ = [
    "check_rounds", "check_holders", "check_over_admission", "check_starvation", "check_starvation_between_chunks",
    "check_starvation_without_cache", "check_starvation_without_chunks",
]  # fmt: skip

_IN_THE_QUEUE = "starvation"
_BETWEEN_CHUNKS = "starvation-between-chunks"
_WITHOUT_CACHE = "starvation-without-cache"
_WITHOUT_CHUNKS = "starvation-without-chunks"
"""Who waits, and in which kind of server. Each check sees separate bugs."""


@check("rounds", order=15)
def check_rounds(step: SchedulerStep) -> Divergence | None:
    """Rounds: a prefill batch is no longer than a chunk, has each request once, takes whole pages from the cache, and
    computes a token of each; a decode round leaves out no request.

    It comes before every other check: the world did not take over a faulty round.
    """
    return None if step.fault is None else step.diverges(step.fault.kind, step.fault.what)


@check("holders", order=30)
def check_holders(step: SchedulerStep) -> Divergence | None:
    """Holders: slots are held by the requests that run, and by the one between two chunks."""
    world = step.world
    expected, found = sorted(world.holding), sorted(step.requests)
    if found == expected:
        return None
    what = f"requests {found} hold slots, expected {expected}"
    return step.diverges("leak", what, "a request that is gone keeps its slots, or one that is not lost them")


@check("over-admission", order=190)
def check_over_admission(step: SchedulerStep) -> Divergence | None:
    """Over-admission: a request that was admitted and runs alone is never given up for want of slots."""
    done = step.decoding
    if done is None or not done.failed or len(step.ran) > 1 or step.world.chunked is not None or step.target.pending():
        return None
    size = step.world.config.page_size
    what = f"request {done.failed[0]} ran alone and was given up because the pools had no slot for its next token"
    free = f"with it gone, {len(step.free.full) * size} full and {len(step.free.swa) * size} SWA slots are free"
    return step.diverges("over-admission", what, f"the server had accepted all its tokens; {free}")


@check(_IN_THE_QUEUE, order=200)
def check_starvation(step: SchedulerStep) -> Divergence | None:
    """Starvation in the queue: an idle engine serves the request that waits: nothing runs, all can be evicted."""
    return _stands_still(step, _IN_THE_QUEUE)


@check(_BETWEEN_CHUNKS, order=200)
def check_starvation_between_chunks(step: SchedulerStep) -> Divergence | None:
    """Starvation between chunks: an idle engine goes on with a prompt that is computed in part: nothing runs."""
    return _stands_still(step, _BETWEEN_CHUNKS)


@check(_WITHOUT_CACHE, order=200)
def check_starvation_without_cache(step: SchedulerStep) -> Divergence | None:
    """Starvation without a prefix cache: an idle engine goes on: only the request between two chunks holds slots."""
    return _stands_still(step, _WITHOUT_CACHE)


@check(_WITHOUT_CHUNKS, order=200)
def check_starvation_without_chunks(step: SchedulerStep) -> Divergence | None:
    """Starvation without chunks: an idle engine serves a prompt that its server accepted, as a whole."""
    return _stands_still(step, _WITHOUT_CHUNKS)


def _stands_still(step: SchedulerStep, name: str) -> Divergence | None:
    """The divergence if the event left an idle engine that serves nobody, and the case is that of the check."""
    world = step.world
    if step.stalls < STALLS or step.round is None or step.round.grants or step.target.pending() or name != _case(step):
        return None
    number = world.chunked if world.chunked is not None else world.waiting[0]
    what = f"request {number} waits {_where(step, number)}, nothing runs, and {STALLS + 1} rounds computed none of it"
    size = world.config.page_size
    free = f"{len(step.free.full) * size} full and {len(step.free.swa) * size} SWA slots are free"
    return step.diverges("starvation", what, f"{free}; no event can change that, so it waits for ever")


def _case(step: SchedulerStep) -> str:
    config = step.world.config
    if not config.chunk:
        return _WITHOUT_CHUNKS
    if not config.prefix_cache:
        return _WITHOUT_CACHE
    return _IN_THE_QUEUE if step.world.chunked is None else _BETWEEN_CHUNKS


def _where(step: SchedulerStep, number: int) -> str:
    """How far a request has come, and what its rounds find."""
    request, config = step.world.scheduled(number), step.world.config
    if request.computed:
        return f"after {request.computed} of {request.prompt} tokens"
    cached, _ = found_whole(step.placed, request.tokens[: request.prompt - 1], config.page_size)
    if cached:
        return f"with {request.prompt} tokens, {cached} of them cached"
    return f"with {request.prompt} tokens{'' if config.chunk else ' that are not cut into chunks'}"
