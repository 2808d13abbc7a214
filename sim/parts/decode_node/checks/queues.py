"""Queues: each request stands where the events brought it, and holds slots if it does so there.

The queues in which order counts have the right one.
"""

from __future__ import annotations

from .....models.decode_node import Stage
from ....core.divergence import Divergence
from ...check import Check
from ..step import DisaggStep

__all__ = ["CHECK"]

_ORDERED = (Stage.QUEUED, Stage.RETRACTED)
_HOLDING = (Stage.TRANSFERRING, Stage.WAITING, Stage.PREBUILT, Stage.RUNNING)


def _run(step: DisaggStep) -> Divergence | None:
    for stage, wanted in step.world.queues.items():
        found: tuple[int, ...] = getattr(step.queues, stage.value)
        expected = tuple(wanted)
        if stage not in _ORDERED:
            found, expected = tuple(sorted(found)), tuple(sorted(expected))
        if found != expected:
            what = f"{stage.value}: requests {_list(found)}, expected {_list(expected)}"
            return step.diverges("leak", CHECK.name, what, "a request is not where the events brought it")
    return _holders(step)


def _holders(step: DisaggStep) -> Divergence | None:
    """Slots are held by the requests at these stages, and by no others."""
    expected = {number for stage in _HOLDING for number in step.world.queues[stage]}
    if step.requests.keys() == expected:
        return None
    what = f"requests {_list(tuple(sorted(step.requests)))} hold slots, expected {_list(tuple(sorted(expected)))}"
    return step.diverges(
        "leak", CHECK.name, what, "a request that is gone keeps its slots, or one that is not lost them"
    )


def _list(requests: tuple[int, ...]) -> str:
    return f"[{' '.join(map(str, requests))}]"


CHECK = Check("queues", _run, order=30)
