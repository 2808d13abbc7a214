"""Over-admission: a round of admission lets in no request that the budgets have no room for."""

from __future__ import annotations

from staleloc.sim.disagg.rounds import round_faults
from staleloc.sim.disagg.step import DisaggCheck, DisaggStep
from staleloc.sim.divergence import Divergence

__all__ = ["CHECK"]


def _run(step: DisaggStep) -> Divergence | None:
    for kind, what, why in round_faults(step):
        if kind == CHECK.name:
            return step.diverges(kind, CHECK.name, what, why)
    return None


CHECK = DisaggCheck("over-admission", _run)
