"""Mask: a loaded copy restores each SWA row that it holds and that is mapped now, and touches no other.

Rows mapped now but not held by the copy are holes and stay as they were (SGLang PRs 24036, 24857).
"""

from __future__ import annotations

from ....core.divergence import MAX_ROWS, Divergence, LocRow
from .. import events as ev
from .base import Check, Step

__all__ = ["CHECK"]


def _run(step: Step) -> Divergence | None:
    event = step.event
    if not isinstance(event, ev.LoadCpuCopy):
        return None
    world = step.world
    rows, origin = world.copies[event.copy]
    locs = world.locs(event.request, event.start, event.start + len(origin))
    for layer, swa in enumerate(world.contents.swa):
        if not swa:
            continue
        memory, keys = world.contents.layers[layer], step.contents(layer).keys
        wrong = []
        for loc, held in zip(locs, rows.mask, strict=True):
            slot = world.mapping.table[loc]
            if slot and memory[slot] != keys[slot]:
                wrong.append((loc, slot, held))
        if wrong:
            return _report(step, layer, wrong)
    return None


def _report(step: Step, layer: int, wrong: list[tuple[int, int, bool]]) -> Divergence:
    loc, slot, held = wrong[0]
    if held:
        what = f"the copy holds the SWA row for full loc {loc}, but it did not arrive in slot {slot} of layer {layer}"
        why = "a row that the copy holds and the mapping has a slot for was lost or put elsewhere"
    else:
        what = f"the copy holds no SWA row for full loc {loc}, but slot {slot} of layer {layer} was overwritten"
        why = "an unfilled hole was filled with a row that belongs to another token or to the dummy slot"
    rows = [LocRow(loc, slot, None) for loc, slot, _ in wrong[:MAX_ROWS]]
    return step.diverges("mask-asymmetry", CHECK.name, what, why, rows)


CHECK = Check("mask", _run)
