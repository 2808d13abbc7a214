"""Values: a node's SWA locs are a cached translation too, and equal the mapping of its full locs.

A loc that nobody may translate (a tombstone's, a free one) has no SWA slot.
"""

from __future__ import annotations

from ....core.divergence import Divergence, LocRow
from ...check import Check
from ..step import EngineStep

__all__ = ["CHECK"]


def _run(step: EngineStep) -> Divergence | None:
    mapping = step.mapping
    for node in step.tree:
        if node.full is None:
            continue
        expected = node.swa or (0,) * len(node.full)
        if any(mapping[loc] != swa for loc, swa in zip(node.full, expected, strict=True)):
            rows = [LocRow(loc, mapping[loc], swa) for loc, swa in zip(node.full, expected, strict=True)]
            wrong = [row for row in rows if row.expected != row.actual]
            kind = "stale-translation" if node.swa else "wrong-mapping"
            what = f"node {node.node} keeps SWA loc {wrong[0].actual} for full loc {wrong[0].loc}"
            what += f", which maps to {wrong[0].expected}"
            why = "a value kept in the tree was not changed with the mapping, or the mapping not with it"
            return step.diverges(kind, CHECK.name, what, why, wrong)
    for number, view in step.requests.items():
        start, stop = step.world.requests[number].window(step.world.config.window)
        for position in range(start, min(stop, len(view.row))):
            if not mapping[view.row[position]]:
                loc = view.row[position]
                what = f"token {position} of request {number} (full loc {loc}) is in the window and has no SWA slot"
                return step.diverges("wrong-mapping", CHECK.name, what)
    return None


CHECK = Check("values", _run, order=120)
