"""Lengths: what the target says is committed and allocated of each request is what the model says.

Committed are all accepted tokens that the scheduler was told of, and allocated is every slot of the request's row.
"""

from __future__ import annotations

from ....core.divergence import Divergence
from ...check import Check
from ..step import SpecStep

__all__ = ["CHECK"]


def _run(step: SpecStep) -> Divergence | None:
    for number, view in step.requests.items():
        request = step.world.speculating(number)
        committed = step.world.counted(number)
        if view.committed is not None and view.committed != committed:
            what = f"request {number} has {view.committed} committed tokens, expected {committed}"
            return step.diverges("wrong-content", CHECK.name, what)
        if len(view.row) != request.allocated:
            kind = "leak" if len(view.row) < request.allocated else "out-of-bounds"
            what = f"request {number} has {len(view.row)} allocated tokens, expected {request.allocated}"
            return step.diverges(kind, CHECK.name, what, "what is given back at its end goes by this length")
    return None


CHECK = Check("lengths", _run, order=50)
