"""Availability: the room that the allocator tells its scheduler is what its free lists hold.

Nothing is lost or handed out twice when it is not; a scheduler admits too much, or starves.
"""

from __future__ import annotations

from ....core.divergence import Divergence
from .base import Check, Step

__all__ = ["CHECK"]


def _run(step: Step) -> Divergence | None:
    free, size = step.free, step.world.config.page_size
    if free is None or free.room is None:
        return None
    for name, pages, said in (("full", free.full, free.room[0]), ("SWA", free.swa, free.room[1])):
        if said != len(pages) * size:
            what = f"the allocator says that {said} {name} tokens are available, and {len(pages) * size} are"
            return step.diverges("leak", CHECK.name, what)
    return None


CHECK = Check("availability", _run)
