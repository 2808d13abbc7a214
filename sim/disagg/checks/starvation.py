"""Starvation: a round of admission keeps no request waiting that the budgets have room for, first come first served."""

from __future__ import annotations

from staleloc.sim.disagg.rounds import round_fault
from staleloc.sim.disagg.step import DisaggCheck, DisaggStep
from staleloc.sim.divergence import Divergence

__all__ = ["CHECK"]


def _run(step: DisaggStep) -> Divergence | None:
    return round_fault(step, CHECK.name)


CHECK = DisaggCheck("starvation", _run)
