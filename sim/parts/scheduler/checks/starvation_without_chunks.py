"""Starvation without chunks: an idle engine serves a prompt that its server accepted, as a whole."""

from __future__ import annotations

from ....core.divergence import Divergence
from ...check import Check
from ..idle import WITHOUT_CHUNKS, stands_still
from ..step import SchedulerStep

__all__ = ["CHECK"]


def _run(step: SchedulerStep) -> Divergence | None:
    return stands_still(step, WITHOUT_CHUNKS)


CHECK = Check(WITHOUT_CHUNKS, _run, order=200)
