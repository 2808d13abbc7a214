"""Queues: each request stands where the events brought it, and the queues in which order counts have the right one."""

from __future__ import annotations

from staleloc.models.decode_node import Stage
from staleloc.sim.disagg.step import DisaggCheck, DisaggStep
from staleloc.sim.divergence import Divergence

__all__ = ["CHECK"]

_ORDERED = (Stage.QUEUED, Stage.RETRACTED)


def _run(step: DisaggStep) -> Divergence | None:
    for stage, wanted in step.world.queues.items():
        found: tuple[int, ...] = getattr(step.queues, stage.value)
        expected = tuple(wanted)
        if stage not in _ORDERED:
            found, expected = tuple(sorted(found)), tuple(sorted(expected))
        if found != expected:
            what = f"{stage.value}: requests {_list(found)}, expected {_list(expected)}"
            return step.diverges("leak", CHECK.name, what, "a request is not where the events brought it")
    return None


def _list(requests: tuple[int, ...]) -> str:
    return f"[{' '.join(map(str, requests))}]"


CHECK = DisaggCheck("queues", _run)
