"""Prebuilt: what the budgets leave for others while a batch of started requests has not joined the running one.

Where a release lets it join within the same turn of its scheduler, no round of preallocation sees such a batch, and yet
both budgets count with one. They are asked what they would say, right after the batch was made.
"""

from __future__ import annotations

from dataclasses import replace

from .....models.budgets import budgets
from .....models.decode_node import Stage
from .....models.disaggregation import Load
from ....core.divergence import Divergence
from ...check import Check
from ..events import Start
from ..step import DisaggStep, locks_seen

__all__ = ["CHECK"]


def _run(step: DisaggStep) -> Divergence | None:
    rules = step.world.accounts.rules
    if not (rules.joins_at_once and isinstance(step.event, Start) and locks_seen(step.tree)):
        return None
    found = step.node.raw_budgets_beside(list(step.started))
    expected = budgets(step.world.accounts, step.room, _apart(step), resuming=False)
    for pool, actual, wanted in zip(("full", "SWA"), found, expected, strict=True):
        if actual != wanted:
            kind = "over-admission" if actual > wanted else "starvation"
            what = f"beside a prebuilt batch of {len(step.started)} the {pool} budget is {actual}, expected {wanted}"
            why = "no scheduler loop of this release lets a round of preallocation see a prebuilt batch"
            return step.diverges(kind, CHECK.name, what, why)
    return None


def _apart(step: DisaggStep) -> Load:
    """The requests, those that were just started neither running nor active."""
    load, running = step.world.load(), step.world.queues[Stage.RUNNING]
    return replace(
        load,
        running=[step.world.job(number) for number in running if number not in step.started],
        active=load.active - len(step.started),
        prebuilt=len(step.started),
    )


CHECK = Check("prebuilt", _run, order=220)
