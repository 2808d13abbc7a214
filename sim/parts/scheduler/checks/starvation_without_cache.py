"""Starvation without a prefix cache: an idle engine goes on: only the request between two chunks holds slots."""

from __future__ import annotations

from ....core.divergence import Divergence
from ...check import Check
from ..idle import WITHOUT_CACHE, stands_still
from ..step import SchedulerStep

__all__ = ["CHECK"]


def _run(step: SchedulerStep) -> Divergence | None:
    return stands_still(step, WITHOUT_CACHE)


CHECK = Check(WITHOUT_CACHE, _run, order=200)
