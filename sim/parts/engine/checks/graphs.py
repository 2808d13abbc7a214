"""Graphs: a forward through a captured graph writes each token's row to its slot at every layer, and no other.

Rows beyond the batch go to the dummy slot, and so does all that a capture runs. What a graph wrote is compared
with the mapping at its replay, so an answer that is not the mapping's shows although nobody may read the row.
"""

from __future__ import annotations

from collections.abc import Sequence

from .....models.graphs import Run, misplaced, padded
from ....core.divergence import Divergence, LocRow
from ...check import Check
from ..step import EngineStep

__all__ = ["CHECK"]


def _run(step: EngineStep) -> Divergence | None:
    for run, written in step.runs:
        for layer, swa in enumerate(step.world.swa_layers):
            row = misplaced(written[layer], run.swa if swa else run.locs)
            if row is not None:
                return _report(step, run, layer, written[layer], row)
    return None


def _report(step: EngineStep, run: Run, layer: int, written: Sequence[int], row: int) -> Divergence:
    swa = step.world.swa_layers[layer]
    slots = run.swa if swa else run.locs
    graph = f"the graph that event {{{run.captured}}} captured"
    if row >= len(written):
        what = f"the {run.runner} graph wrote {row} of {len(slots)} tokens at layer {layer}"
        return step.diverges("wrong-content", CHECK.name, what, f"it is {graph}")
    if run.warm_up:
        wanted = "in its own capture"
    else:
        wanted = f"expected {slots[row]}" if row < len(slots) else f"beyond its batch of {len(slots)}"
    what = f"the {run.runner} graph wrote row {row} to {'SWA ' if swa else ''}slot {written[row]} of layer {layer}"
    if not swa:
        return step.diverges("wrong-content", CHECK.name, f"{what}, {wanted}", f"it is {graph}")
    kind, why = _source(step, run, written, row)
    return step.diverges(kind, CHECK.name, f"{what}, {wanted}", f"{graph} {why}", _rows(run, written))


def _source(step: EngineStep, run: Run, written: Sequence[int], row: int) -> tuple[str, str]:
    """The class of a wrong SWA loc, and what the graph did."""
    graphs = step.world.graphs
    source = graphs.served(run, written)
    if source is None:
        left = graphs.left_by(run, row, written[row])
        whose = "nobody's" if left is None else f"what {_named(left)} left in row {row}"
        return "stale-translation", f"was given {whose}"
    if source.event > run.captured:
        return "stale-translation", f"was given the translation of {_named(source)}"
    return "graph-pollution", f"serves what {_named(source)} translated before it"


def _named(run: Run) -> str:
    return "a warm-up on the dummy slot" if run.warm_up else f"the {run.runner} run of event {{{run.event}}}"


def _rows(run: Run, written: Sequence[int]) -> list[LocRow]:
    size = len(written)
    rows = zip(padded(run.locs, size), padded(run.swa, size), written, strict=True)
    return [LocRow(loc, slot, actual) for loc, slot, actual in rows if slot != actual]


CHECK = Check("graphs", _run, order=140)
