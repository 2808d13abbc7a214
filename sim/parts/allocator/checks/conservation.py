"""Conservation: free and live slots add up to the pool, page by page, and a request that fits is not refused."""

from __future__ import annotations

from .....models.allocator import SlotPool
from ....core.divergence import Divergence
from .base import Check, Step, loc_list

__all__ = ["CHECK"]


def _run(step: Step) -> Divergence | None:
    world = step.world
    if step.refused and step.room:
        full, swa = len(world.full.free), len(world.swa.free)
        unit = "slots" if world.config.page_size == 1 else "pages"
        what = f"the allocation was refused although it fits: {full} full and {swa} SWA {unit} are free"
        return step.diverges("leak", CHECK.name, what)
    if step.free is None:
        return None
    return _pool(step, "full", world.full, step.free.full) or _pool(step, "SWA", world.swa, step.free.swa)


def _pool(step: Step, name: str, pool: SlotPool, listed: list[int]) -> Divergence | None:
    missing = pool.free.difference(listed)
    if not missing:
        return None
    unit = "slot" if step.world.config.page_size == 1 else "page"
    what = f"{name} {unit} {loc_list(missing)} belongs to nobody and is in no free list"
    return step.diverges("leak", CHECK.name, what)


CHECK = Check("conservation", _run)
