"""Evicted length: it covers every token in front of a request that has no SWA slot, and a window eviction gives up
slots that are there."""

from __future__ import annotations

from ....core.divergence import Divergence
from ...check import Check
from ...engine.events import EvictWindow
from ..step import DisaggStep

__all__ = ["CHECK"]


def _run(step: DisaggStep) -> Divergence | None:
    given_up = _never_had(step)
    if given_up is not None:
        why = "its evicted length did not say so, and if the slot was somebody else's, that one loses it"
        return step.diverges("wrong-mapping", CHECK.name, given_up, why)
    for number in _placed(step) if step.world.accounts.rules.records_tail else ():
        hole = _behind_evicted(step, number)
        if hole is not None:
            why = "window eviction, insertion and release go by the evicted length"
            return step.diverges("wrong-mapping", CHECK.name, f"request {number} {hole}", why)
    return None


def _placed(step: DisaggStep) -> list[int]:
    """The requests that the event gave slots."""
    admitted = [] if step.round is None else [item.request for item in step.round.admitted]
    return [*admitted, *(step.resumed or ())]


def _behind_evicted(step: DisaggStep, number: int) -> str | None:
    """A request that was just given slots has SWA slots for all its own tokens behind its evicted length (SGLang PR
    28085: it stayed at 0 after a tail preallocation)."""
    view = step.requests[number]
    for position in range(max(view.shared, view.evicted), len(view.row)):
        if not step.mapping[view.row[position]]:
            return f"says that {view.evicted} tokens have no SWA slot, and neither has token {position}"
    return None


def _never_had(step: DisaggStep) -> str | None:
    """What a window eviction gives up had an SWA slot."""
    if not isinstance(step.event, EvictWindow) or step.before is None:
        return None
    number, mapping = step.event.request, step.before.mapping
    view, after = step.before.requests[number], step.requests[number]
    for position in range(max(view.shared, view.evicted), after.evicted):
        if not mapping[view.row[position]]:
            return f"request {number} gives up the SWA slot of token {position}, which never had one"
    return None


CHECK = Check("evicted", _run, order=110)
