"""Starvation between chunks: an idle engine goes on with a prompt that is computed in part: nothing runs beside it."""

from __future__ import annotations

from ....core.divergence import Divergence
from ...check import Check
from ..idle import BETWEEN_CHUNKS, stands_still
from ..step import SchedulerStep

__all__ = ["CHECK"]


def _run(step: SchedulerStep) -> Divergence | None:
    return stands_still(step, BETWEEN_CHUNKS)


CHECK = Check(BETWEEN_CHUNKS, _run, order=200)
