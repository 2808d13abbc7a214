"""Checks of slots: who has each, whether that is where it may be, and whether none is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .....models.allocator import SlotPool
from .....models.world import Grant
from ....core.divergence import MAX_ROWS, Divergence
from ...check import check
from ..event import Step

__all__ = ["check_bounds", "check_alias", "check_ownership", "check_conservation", "check_availability"]


@check("bounds", early=True)
def check_bounds(step: Step) -> Divergence | None:
    """Bounds and alignment: an allocated slot lies in its pool, off the dummy page, at its token's place in the
    page."""
    if step.miscount:
        return step.diverges("out-of-bounds", step.miscount)
    if not step.grants:
        return None
    config = step.world.config
    size = config.page_size
    full_end, swa_end = config.full_size + size, config.swa_size + size
    for grant in step.grants:
        for name, loc, end in (("full", grant.loc, full_end), ("SWA", grant.swa, swa_end)):
            if name == "SWA" and loc == 0:
                continue
            if not size <= loc < end:
                return step.diverges(
                    "out-of-bounds",
                    f"{name} loc {loc} was allocated; the pool's slots are {size} to {end - 1}",
                )
            if loc % size != grant.position % size:
                return step.diverges(
                    "misaligned",
                    f"token {grant.position} of request {grant.request} sits at {name} loc {loc}, "
                    f"offset {loc % size} of its page instead of {grant.position % size}",
                )
    return None


@check("alias", early=True)
def check_alias(step: Step) -> Divergence | None:
    """Alias: an allocated slot had no owner, and no two tokens got the same slot."""
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
        wrong = _misplaced(step, grant, grant.loc, world.full, taken, full_before)
        if wrong:
            return step.diverges("alias", f"full loc {grant.loc} went to {_token(grant)}, but {wrong}")
    taken.clear()
    for grant in filter(lambda grant: grant.swa, step.grants):
        wrong = _misplaced(step, grant, grant.swa, world.swa, taken, swa_before)
        if wrong:
            return step.diverges("alias", f"SWA loc {grant.swa} went to {_token(grant)}, but {wrong}")
    return None


def _misplaced(
    step: Step, grant: Grant, loc: int, pool: SlotPool, taken: set[int], before: Callable[[Grant], int]
) -> str:
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


@check("ownership")
def check_ownership(step: Step) -> Divergence | None:
    """Ownership: no slot is free twice, none is free while a request owns it, the dummy slot never is.

    Counting is not enough: SGLang PR 36081 keeps every counter balanced while a live page is free.
    """
    if step.free is None:
        return None
    world = step.world
    return _free_wrongly(step, "full", world.full, step.free.full) or _free_wrongly(
        step, "SWA", world.swa, step.free.swa
    )


def _free_wrongly(step: Step, name: str, pool: SlotPool, listed: list[int]) -> Divergence | None:
    unique = set(listed)
    if len(unique) == len(listed) and unique <= pool.free:
        return None
    unit = "slot" if step.world.config.page_size == 1 else "page"
    beyond = {page for page in unique if not 1 <= page <= pool.pages}
    if beyond:
        what = f"the {name} pool's free list holds {unit} {_locs(beyond)}; its {unit}s are 1 to {pool.pages}"
        return step.diverges("out-of-bounds", what)
    owned = {page for page in unique if page in pool.owner}
    if owned:
        owners = _locs({pool.owner[page] for page in owned})
        what = f"{name} {unit} {_locs(owned)} is in the free list while request {owners} owns it"
        return step.diverges("use-after-free", what)
    twice = {page for page in unique if listed.count(page) > 1}
    if twice:
        what = f"{name} {unit} {_locs(twice)} is in the free list more than once"
        return step.diverges("double-free", what)
    return None


@check("conservation")
def check_conservation(step: Step) -> Divergence | None:
    """Conservation: free and live slots add up to the pool, page by page, and a request that fits is not refused."""
    world = step.world
    if step.refused and step.room:
        full, swa = len(world.full.free), len(world.swa.free)
        unit = "slots" if world.config.page_size == 1 else "pages"
        what = f"the allocation was refused although it fits: {full} full and {swa} SWA {unit} are free"
        return step.diverges("leak", what)
    if step.free is None:
        return None
    return _missing(step, "full", world.full, step.free.full) or _missing(step, "SWA", world.swa, step.free.swa)


def _missing(step: Step, name: str, pool: SlotPool, listed: list[int]) -> Divergence | None:
    missing = pool.free.difference(listed)
    if not missing:
        return None
    unit = "slot" if step.world.config.page_size == 1 else "page"
    what = f"{name} {unit} {_locs(missing)} has no owner and is in no free list"
    return step.diverges("leak", what)


@check("availability")
def check_availability(step: Step) -> Divergence | None:
    """Availability: the room that the allocator tells its scheduler is what its free lists hold.

    Nothing is lost or handed out twice when it is not; a scheduler admits too much, or starves.
    """
    free, size = step.free, step.world.config.page_size
    if free is None or free.room is None:
        return None
    for name, pages, said in (("full", free.full, free.room[0]), ("SWA", free.swa, free.room[1])):
        if said != len(pages) * size:
            what = f"the allocator says that {said} {name} tokens are available, and {len(pages) * size} are"
            return step.diverges("leak", what)
    return None


def _locs(locs: Iterable[int]) -> str:
    """Locs for people: at most eight, in order."""
    ordered = sorted(locs)
    more = f" and {len(ordered) - MAX_ROWS} more" if len(ordered) > MAX_ROWS else ""
    return ", ".join(map(str, ordered[:MAX_ROWS])) + more
