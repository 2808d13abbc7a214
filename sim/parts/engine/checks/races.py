"""Races: a slot whose copy has not finished belongs to that copy alone.

Two queued transfers share no slot unless both only read it, and no request writes its tokens to a slot
that a transfer still uses: only nodes are copied, so a request's own slots never are. (That a free list
holds none is a matter of owners.)
"""

from __future__ import annotations

from .....models.hicache import Copied, overlap_fault
from ....core.divergence import Divergence
from ...check import Check
from ..step import EngineStep

__all__ = ["CHECK"]

_POOLS = (
    ("full", "device", "full"),
    ("SWA", "device", "swa"),
    ("host full", "host", "full"),
    ("host SWA", "host", "swa"),
)


def _run(step: EngineStep) -> Divergence | None:
    if not step.copying:
        return None
    return _copies(step) or _requests(step)


def _copies(step: EngineStep) -> Divergence | None:
    for name, side, kind in _POOLS:
        on_host = side == "host"
        copies = [Copied(getattr(getattr(it, side), kind), it.to_host == on_host) for it in step.copying]
        fault = overlap_fault(name, copies)
        if fault is not None:
            return step.diverges(fault.kind, CHECK.name, fault.what)
    return None


def _requests(step: EngineStep) -> Divergence | None:
    device, _ = step.in_flight
    full, swa = step.pages(device.full), step.pages(device.swa)
    for number, view in step.requests.items():
        own = view.row[view.shared :]
        for name, used in (
            ("full", step.pages(own) & full),
            ("SWA", step.pages([step.mapping[loc] for loc in own if step.mapping[loc]]) & swa),
        ):
            if used:
                what = f"request {number} was given {name} page {min(used)}, which a queued copy still uses"
                return step.diverges("race", CHECK.name, what)
    return None


CHECK = Check("races", _run, order=80)
