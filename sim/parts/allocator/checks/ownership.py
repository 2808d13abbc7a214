"""Ownership: no slot is free twice, none is free while somebody owns it, the dummy slot never is.

Counting is not enough: SGLang PR 36081 keeps every counter balanced while a live page is free.
"""

from __future__ import annotations

from .....models.allocator import SlotPool
from ....core.divergence import Divergence
from .base import Check, Step, loc_list

__all__ = ["CHECK"]


def _run(step: Step) -> Divergence | None:
    if step.free is None:
        return None
    world = step.world
    return _pool(step, "full", world.full, step.free.full) or _pool(step, "SWA", world.swa, step.free.swa)


def _pool(step: Step, name: str, pool: SlotPool, listed: list[int]) -> Divergence | None:
    unique = set(listed)
    if len(unique) == len(listed) and unique <= pool.free:
        return None
    unit = "slot" if step.world.config.page_size == 1 else "page"
    beyond = {page for page in unique if not 1 <= page <= pool.pages}
    if beyond:
        what = f"the {name} pool's free list holds {unit} {loc_list(beyond)}; its {unit}s are 1 to {pool.pages}"
        return step.diverges("out-of-bounds", CHECK.name, what)
    owned = {page for page in unique if page in pool.owner}
    if owned:
        owners = loc_list({pool.owner[page] for page in owned})
        what = f"{name} {unit} {loc_list(owned)} is in the free list while request {owners} owns it"
        return step.diverges("use-after-free", CHECK.name, what)
    twice = {page for page in unique if listed.count(page) > 1}
    if twice:
        what = f"{name} {unit} {loc_list(twice)} is in the free list more than once"
        return step.diverges("double-free", CHECK.name, what)
    return None


CHECK = Check("ownership", _run)
