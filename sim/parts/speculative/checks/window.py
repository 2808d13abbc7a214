"""Window: a request that is prepared for a step keeps no SWA slots of its own far in front of its window.

Whole pages are given up, and an engine may keep one page more than the window needs; its first step need not give up
any. Without this, a path that never evicts takes SWA slots without end and shows in nothing else (SGLang PR 34924).
"""

from __future__ import annotations

from ....core.divergence import Divergence
from ...check import Check
from ..step import SpecStep

__all__ = ["CHECK"]


def _run(step: SpecStep) -> Divergence | None:
    for number in step.prepared:
        spec, view = step.world.speculating(number), step.requests[number]
        last = step.world.must_be_evicted(number) if spec.steps > 1 else 0
        for position in range(view.shared, last):
            loc = view.row[position]
            if step.mapping[loc]:
                what = f"token {position} of request {number} (full loc {loc}) has SWA slot {step.mapping[loc]}"
                what += f" and {spec.committed} tokens are committed"
                return step.diverges("leak", CHECK.name, what, "window eviction did not come this way")
    return None


CHECK = Check("window", _run, order=130)
