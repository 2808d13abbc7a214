"""Graphs: a forward through a captured graph writes each token's row to its slot at every layer, and no other.

Rows beyond the batch go to the dummy slot, and so does all that a capture runs. What a graph wrote is compared
with the mapping at its replay, so an answer that is not the mapping's shows although nobody may read the row.
"""

from __future__ import annotations

from collections.abc import Sequence

from staleloc.models.graphs import Run, misplaced, padded
from staleloc.sim.divergence import Divergence, LocRow
from staleloc.sim.engine.step import EngineCheck, EngineStep

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
    graph = f"the {run.runner} graph captured at event {{{run.captured}}}"
    if row >= len(written):
        what = f"{graph} wrote {row} of {len(slots)} tokens at layer {layer}"
        return step.diverges("wrong-content", CHECK.name, what)
    if run.warm_up:
        wanted = "in its own capture"
    else:
        wanted = f"expected {slots[row]}" if row < len(slots) else f"beyond its batch of {len(slots)}"
    what = f"{graph} wrote row {row} to {'SWA ' if swa else ''}slot {written[row]} of layer {layer}, {wanted}"
    if not swa:
        return step.diverges("wrong-content", CHECK.name, what)
    kind, why = _source(step, run, written, row)
    return step.diverges(kind, CHECK.name, what, why, _rows(run, written))


def _source(step: EngineStep, run: Run, written: Sequence[int], row: int) -> tuple[str, str]:
    """The class of a wrong SWA loc, and whose translation it is."""
    source = step.world.graphs.served(run, written)
    if source is None:
        left = step.world.graphs.left_by(run, row, written[row])
        why = "" if left is None else f"row {row} is what [{left.event}] left there at event {{{left.event}}}"
        return "stale-translation", why
    if source.event > run.captured:
        why = f"[{run.event}] at event {{{run.event}}} was served the translation of event {{{source.event}}}"
        return "stale-translation", why
    whose = "a warm-up on the dummy slot" if source.warm_up else f"[{source.event}] at event {{{source.event}}}"
    why = f"the graph that event {{{run.captured}}} captured serves what {whose} translated before it"
    return "graph-pollution", why


def _rows(run: Run, written: Sequence[int]) -> list[LocRow]:
    size = len(written)
    rows = zip(padded(run.locs, size), padded(run.swa, size), written, strict=True)
    return [LocRow(loc, slot, actual) for loc, slot, actual in rows if slot != actual]


CHECK = EngineCheck("graphs", _run)
