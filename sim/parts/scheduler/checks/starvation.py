"""Starvation in the queue: an idle engine serves the request that waits: nothing runs, all else could be evicted."""

from __future__ import annotations

from ....core.divergence import Divergence
from ...check import Check
from ..idle import IN_THE_QUEUE, stands_still
from ..step import SchedulerStep

__all__ = ["CHECK"]


def _run(step: SchedulerStep) -> Divergence | None:
    return stands_still(step, IN_THE_QUEUE)


CHECK = Check(IN_THE_QUEUE, _run, order=200)
