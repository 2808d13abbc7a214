"""Alias: a slot handed out belonged to nobody, and no two tokens got the same one."""

from __future__ import annotations

from collections.abc import Callable

from .....models.allocator import SlotPool
from .....models.world import Grant
from ....core.divergence import Divergence
from .base import Check, Step

__all__ = ["CHECK"]


def _run(step: Step) -> Divergence | None:
    if not step.grants:
        return None
    world = step.world
    fresh = [grant for grant in step.grants if grant.position >= len(world.locs(grant.request))]
    full = {(g.request, g.position): g.loc for g in fresh}
    swa = {(g.request, g.position): g.swa for g in step.grants}

    def full_before(grant: Grant) -> int:
        known = full.get((grant.request, grant.position - 1))
        return world.locs(grant.request)[grant.position - 1] if known is None else known

    def swa_before(grant: Grant) -> int:
        known = swa.get((grant.request, grant.position - 1))
        return world.mapping.table[world.locs(grant.request)[grant.position - 1]] if known is None else known

    taken: set[int] = set()
    for grant in fresh:
        wrong = _judge(step, grant, grant.loc, world.full, taken, full_before)
        if wrong:
            return step.diverges("alias", CHECK.name, f"full loc {grant.loc} went to {_token(grant)}, but {wrong}")
    taken.clear()
    for grant in filter(lambda grant: grant.swa, step.grants):
        wrong = _judge(step, grant, grant.swa, world.swa, taken, swa_before)
        if wrong:
            return step.diverges("alias", CHECK.name, f"SWA loc {grant.swa} went to {_token(grant)}, but {wrong}")
    return None


def _judge(step: Step, grant: Grant, loc: int, pool: SlotPool, taken: set[int], before: Callable[[Grant], int]) -> str:
    """What is wrong with a slot, or an empty string."""
    page, offset = divmod(loc, step.world.config.page_size)
    if offset:
        return "" if before(grant) + 1 == loc else f"the token before it is at {before(grant)}"
    if page in pool.owner:
        return f"request {pool.owner[page]} owns it"
    if page in taken:
        return "another token of this event got it too"
    taken.add(page)
    return ""


def _token(grant: Grant) -> str:
    return f"token {grant.position} of request {grant.request}"


CHECK = Check("alias", _run, early=True)
