"""Holders: slots are held by the requests that run, and by the one between two chunks."""

from __future__ import annotations

from ....core.divergence import Divergence
from ...check import Check
from ..step import SchedulerStep

__all__ = ["CHECK"]


def _run(step: SchedulerStep) -> Divergence | None:
    world = step.world
    expected = sorted([*world.running, *([] if world.chunked is None else [world.chunked])])
    found = sorted(step.requests)
    if found == expected:
        return None
    what = f"requests {found} hold slots, expected {expected}"
    return step.diverges(
        "leak", CHECK.name, what, "a request that is gone keeps its slots, or one that is not lost them"
    )


CHECK = Check("holders", _run, order=30)
