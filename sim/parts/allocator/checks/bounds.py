"""Bounds and alignment: a slot handed out lies in its pool, off the dummy page, at its token's place in the page."""

from __future__ import annotations

from ....core.divergence import Divergence
from .base import Check, Step

__all__ = ["CHECK"]


def _run(step: Step) -> Divergence | None:
    if step.miscount:
        return step.diverges("out-of-bounds", CHECK.name, step.miscount)
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
                    CHECK.name,
                    f"{name} loc {loc} was handed out; the pool's slots are {size} to {end - 1}",
                )
            if loc % size != grant.position % size:
                return step.diverges(
                    "misaligned",
                    CHECK.name,
                    f"token {grant.position} of request {grant.request} sits at {name} loc {loc}, "
                    f"offset {loc % size} of its page instead of {grant.position % size}",
                )
    return None


CHECK = Check("bounds", _run, early=True)
