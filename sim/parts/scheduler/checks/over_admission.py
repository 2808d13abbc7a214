"""Over-admission: a request that was admitted and runs alone is never given up for want of slots."""

from __future__ import annotations

from ....core.divergence import Divergence
from ...check import Check
from ..step import SchedulerStep

__all__ = ["CHECK"]


def _run(step: SchedulerStep) -> Divergence | None:
    done = step.decoding
    if done is None or not done.failed or len(step.ran) > 1 or step.world.chunked is not None or step.target.pending():
        return None
    size = step.world.config.page_size
    what = f"request {done.failed[0]} ran alone and was given up because the pools had no slot for its next token"
    free = f"with it gone, {len(step.free.full) * size} full and {len(step.free.swa) * size} SWA slots are free"
    return step.diverges("over-admission", CHECK.name, what, f"the server had accepted all its tokens; {free}")


CHECK = Check("over-admission", _run, order=190)
