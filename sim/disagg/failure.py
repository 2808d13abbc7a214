"""What an exception out of a decode node is."""

from __future__ import annotations

from staleloc.sim.crash import crash
from staleloc.sim.disagg.checks.over_admission import CHECK
from staleloc.sim.disagg.step import DisaggStep
from staleloc.sim.divergence import Divergence
from staleloc.sim.targets.disagg import OverAdmission

__all__ = ["failure"]


def failure(step: DisaggStep, error: BaseException) -> Divergence:
    """Over-admission if the engine found out by itself that it admitted too much, otherwise a crash."""
    if isinstance(error, OverAdmission):
        what = f"{step.event.kind} admitted a request that cannot be allocated: {error}"
        return step.diverges(CHECK.name, CHECK.name, what)
    return crash(error, step.index, step.event)
