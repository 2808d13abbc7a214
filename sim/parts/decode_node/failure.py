"""What an exception out of a decode node is."""

from __future__ import annotations

from ...core.divergence import Divergence
from ...targets.disagg import OverAdmission
from ..crash import crash
from .checks.over_admission import CHECK
from .step import DisaggStep

__all__ = ["failure"]


def failure(step: DisaggStep, error: BaseException) -> Divergence:
    """Over-admission if the engine found out by itself that it admitted too much, otherwise a crash."""
    if isinstance(error, OverAdmission):
        what = f"{step.event.kind} admitted a request that cannot be allocated: {error}"
        return step.diverges(CHECK.name, CHECK.name, what)
    return crash(error, step.index, step.event, step.target.adapter)
