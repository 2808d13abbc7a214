"""Over-admission: a round of admission lets in no request that the budgets have no room for."""

from __future__ import annotations

from ....core.divergence import Divergence
from ...check import Check
from ..rounds import round_fault
from ..step import DisaggStep

__all__ = ["CHECK"]


def _run(step: DisaggStep) -> Divergence | None:
    return round_fault(step, CHECK.name)


CHECK = Check("over-admission", _run, order=190)
