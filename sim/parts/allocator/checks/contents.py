"""Contents: every slot an event may touch holds the row written there last, and a read brings it back."""

from __future__ import annotations

from ....core.divergence import MAX_ROWS, Divergence, LocRow
from ....targets.base import V_MARK, Rows
from .base import Check, Step

__all__ = ["CHECK", "sweep"]


def _run(step: Step) -> Divergence | None:
    if step.rows is not None:
        return _read(step)
    for layer in step.touched:
        divergence = sweep(step, layer)
        if divergence is not None:
            return divergence
    return None


def sweep(step: Step, layer: int) -> Divergence | None:
    """Compare the whole layer with the model's memory; the dummy slot may hold anything."""
    memory = step.world.contents.layers[layer]
    rows = step.contents(layer)
    if rows.keys[1:] == memory[1:] and _values_match(rows.values, memory):
        return None
    wrong = [slot for slot in range(1, len(memory)) if not _row_matches(rows, slot, memory[slot])]
    if not wrong:
        return None
    slot = wrong[0]
    found = _describe(step, rows, slot)
    what = f"slot {slot} of layer {layer} holds {found}, expected {_name(step, memory[slot])}"
    if len(wrong) > 1:
        what += f" ({len(wrong)} slots differ)"
    shown = [LocRow(slot, slot, None) for slot in wrong[:MAX_ROWS]]
    return step.diverges("wrong-content", CHECK.name, what, f"event {{{step.index}}} left the wrong rows behind", shown)


def _read(step: Step) -> Divergence | None:
    assert step.rows is not None
    world = step.world
    layer = step.read_layer
    memory = world.contents.layers[layer]
    slots = world.contents.slots(layer, step.read_locs, world.mapping.table)
    for i, slot in enumerate(slots):
        if not _row_matches(step.rows, i, memory[slot]):
            loc = step.read_locs[i]
            what = (
                f"a read of full loc {loc} at layer {layer} brought {_describe(step, step.rows, i)}, "
                f"expected {_name(step, memory[slot])}"
            )
            return step.diverges("wrong-content", CHECK.name, what, "", [LocRow(loc, slot, None)])
    return None


def _values_match(values: list[int] | None, memory: list[int]) -> bool:
    return values is None or [value - V_MARK if value else 0 for value in values[1:]] == memory[1:]


def _row_matches(rows: Rows, i: int, tag: int) -> bool:
    return rows.keys[i] == tag and (rows.values is None or rows.values[i] == (tag + V_MARK if tag else 0))


def _describe(step: Step, rows: Rows, i: int) -> str:
    key = _name(step, rows.keys[i])
    if rows.values is None or rows.values[i] == (rows.keys[i] + V_MARK if rows.keys[i] else 0):
        return key
    return f"key {key} with value {_name(step, rows.values[i] - V_MARK)}"


def _name(step: Step, tag: int) -> str:
    tags = step.world.contents.tags
    if tag == 0:
        return "nothing"
    if not 0 < tag < len(tags):
        return f"a row nobody wrote ({tag})"
    known = tags[tag]
    return f"token {known.position} of request {known.request} (layer {known.layer}, event {{{known.event}}})"


CHECK = Check("contents", _run)
