"""Leftovers: a slot that is free is mapped to nothing, so nothing of a rejected draft can be read or freed again.

Where a restore does not put the mapping back, entries of what it took back may stay until the slots are handed out
again, for nobody can ask for them before.
"""

from __future__ import annotations

from ....core.divergence import Divergence, LocRow
from ...check import Check
from ..step import SpecStep

__all__ = ["CHECK"]


def _run(step: SpecStep) -> Divergence | None:
    world, size = step.world, step.world.config.page_size
    if not world.config.spec_ahead and not world.rules.restores_mapping:
        return None
    for page in step.free.full:
        for loc in range(page * size, (page + 1) * size):
            if step.mapping[loc]:
                what = f"full loc {loc} is free and maps to SWA loc {step.mapping[loc]}"
                return step.diverges("wrong-mapping", CHECK.name, what, rows=[LocRow(loc, 0, step.mapping[loc])])
    return None


CHECK = Check("leftovers", _run, order=70)
