"""Starvation: a round of admission keeps no request waiting that the budgets have room for, first come first served."""

from __future__ import annotations

from ....core.divergence import Divergence
from ...check import Check
from ..rounds import round_fault
from ..step import DisaggStep

__all__ = ["CHECK"]


def _run(step: DisaggStep) -> Divergence | None:
    return round_fault(step, CHECK.name)


CHECK = Check("starvation", _run, order=200)
