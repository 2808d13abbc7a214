"""Checks of translations and rows: what the mapping says, and what the slots hold that it leads to."""

from __future__ import annotations

from .....models.world import World
from ....core.divergence import MAX_ROWS, Divergence, LocRow
from ....targets.base import V_MARK, Rows
from ...check import check, holds
from .. import events as ev
from ..event import Step

__all__ = ["check_translation", "check_mapping", "check_mask", "check_contents"]


@check("translation")
def check_translation(step: Step) -> Divergence | None:
    """Translation: every loc a target translates, from a cache or not, is what the mapping says now.

    Three ways to see it: the answer of a translation, the slot in which a written row landed, and the
    row that a read brought back.
    """
    if step.asked:
        return _asked(step)
    if step.written is not None:
        return _written(step)
    if step.rows is not None:
        return _read_from(step)
    return None


def _asked(step: Step) -> Divergence | None:
    mapping = step.world.mapping
    expected = [mapping.table[loc] if loc >= 0 else -1 for loc in step.asked]
    if step.answers == expected:
        mapping.use(step.index, step.asked)
        return None
    if len(step.answers) != len(expected):
        asked = "1 loc was" if len(step.asked) == 1 else f"{len(step.asked)} locs were"
        what = f"{asked} translated into {len(step.answers)} answers"
        return step.diverges("stale-translation", what)
    pairs = [
        (loc, want, got)
        for loc, want, got in zip(step.asked, expected, step.answers, strict=True)
        if want != got and mapping.lenient.get(loc) != got
    ]
    return _judge(step, pairs, "translates to") if pairs else None


def _written(step: Step) -> Divergence | None:
    assert step.written is not None
    assert step.world.forward is not None
    layer, tags = step.written
    locs = step.world.forward.locs
    world = step.world
    table = world.mapping.table
    if not world.contents.swa[layer]:
        return None
    keys = step.contents(layer).keys
    if keys[1:] == world.contents.layers[layer][1:]:
        world.mapping.use(step.index, locs)
        return None
    owner = dict(zip(tags, locs, strict=True))
    pairs = [
        (owner[tag], table[owner[tag]], slot)
        for slot, tag in enumerate(keys)
        if slot and tag in owner and table[owner[tag]] != slot
    ]
    if keys[0] in owner:
        # Rows meant for the dummy slot overwrite each other; the missing ones went there too.
        arrived = set(keys[1:])
        pairs += [(loc, table[loc], 0) for tag, loc in owner.items() if table[loc] and tag not in arrived]
    return _judge(step, pairs, f"was written at layer {layer} to SWA slot") if pairs else None


def _read_from(step: Step) -> Divergence | None:
    assert step.rows is not None
    world = step.world
    layer = step.read_layer
    if not world.contents.swa[layer]:
        return None
    memory = world.contents.layers[layer]
    table = world.mapping.table
    pairs = []
    for loc, tag in zip(step.read_locs, step.rows.keys, strict=True):
        if tag != memory[table[loc]] and tag in memory:
            pairs.append((loc, table[loc], memory.index(tag)))
    if pairs:
        return _judge(step, pairs, f"was read at layer {layer} from SWA slot")
    world.mapping.use(step.index, step.read_locs)
    return None


def _judge(step: Step, pairs: list[tuple[int, int, int]], verb: str) -> Divergence | None:
    """A divergence if the wrong slot is the answer to an earlier question; otherwise the other checks speak."""
    world = step.world
    if not all(world.mapping.ever(got) for _, _, got in pairs) and not step.asked:
        return None
    rows = [_row(world, *pair) for pair in pairs]
    loc, expected, got = pairs[0]
    what = f"full loc {loc} {verb} {got}, expected {expected}"
    if len(pairs) > 1:
        what += f" ({len(pairs)} locs differ)"
    return step.diverges("stale-translation", what, _why_stale(step, rows[0]), rows)


def _row(world: World, loc: int, expected: int, actual: int) -> LocRow:
    return LocRow(loc, expected, actual, _stale_at(world, loc, actual), world.mapping.used.get(loc))


def _stale_at(world: World, loc: int, actual: int) -> int | None:
    """The event after which `actual` was wrong for a loc that had been asked for; None if it never was asked for,
    or never right: then it is the answer to another question."""
    mapping = world.mapping
    used = mapping.used.get(loc)
    if used is None:
        return None
    changes = mapping.history.get(loc, [])
    if mapping.value_at(loc, used) == actual:
        return next((change.event for change in changes if change.event > used), None)
    return mapping.changed_from(loc, actual)


def _why_stale(step: Step, row: LocRow) -> str:
    if row.stale_at is not None:
        asked = row.last_correct
        before = f"translated at event {{{asked}}}, " if asked is not None and asked < row.stale_at else ""
        return (
            f"{before}mapping of full loc {row.loc} changed from {row.actual} to "
            f"{step.world.mapping.value_at(row.loc, row.stale_at)} at event {{{row.stale_at}}} by "
            f"[{row.stale_at}], and the old translation was used at event {{{step.index}}}"
        )
    if not row.actual:
        return f"full loc {row.loc} has SWA slot {row.expected}; at event {{{step.index}}} it was translated to none"
    others = [loc for loc, swa in enumerate(step.world.mapping.table) if swa == row.actual]
    whose = f"full loc {others[0]}" if others else "a loc that was mapped to it earlier"
    return f"SWA slot {row.actual} is the translation of {whose}, used for full loc {row.loc} at event {{{step.index}}}"


@check("mapping")
def check_mapping(step: Step) -> Divergence | None:
    """Mapping: after every event, every entry of the raw table is the expected one."""
    mapping = step.world.mapping
    bare = next((grant for grant in step.grants if grant.due and not grant.swa), None)
    if bare is not None:
        token = f"token {bare.position} of request {bare.request}"
        what = f"{token} is due an SWA slot, and full loc {bare.loc} was mapped to none"
        return step.diverges("wrong-mapping", what)
    if step.mapping == mapping.table:
        return None
    if len(step.mapping) != len(mapping.table):
        what = f"the mapping has {len(step.mapping)} entries instead of {len(mapping.table)}"
        return step.diverges("wrong-mapping", what)
    wrong = [
        (loc, expected, actual)
        for loc, (expected, actual) in enumerate(zip(mapping.table, step.mapping, strict=True))
        if expected != actual and mapping.lenient.get(loc) != actual
    ]
    if not wrong:
        return None
    rows = []
    for loc, expected, actual in wrong[:MAX_ROWS]:
        changes = mapping.history.get(loc, [])
        stale = changes[-1].event if changes and actual in {change.swa for change in changes[:-1]} else None
        rows.append(LocRow(loc, expected, actual, stale, mapping.used.get(loc)))
    loc, expected, actual = wrong[0]
    what = f"the mapping of full loc {loc} is {actual}, expected {expected}"
    if len(wrong) > 1:
        what += f" ({len(wrong)} entries differ)"
    return step.diverges("wrong-mapping", what, _why_wrong(step, loc, expected, actual), rows)


def _why_wrong(step: Step, loc: int, expected: int, actual: int) -> str:
    changes = step.world.mapping.history.get(loc, [])
    previous = [change for change in changes if change.swa == actual]
    if expected == 0 and previous:
        cleared = next((c.event for c in changes if c.event >= previous[-1].event and c.swa != actual), step.index)
        return (
            f"full loc {loc} was mapped to {actual} at event {{{previous[-1].event}}} and must have no SWA slot "
            f"since event {{{cleared}}}, but its entry survived"
        )
    if actual == 0 and changes:
        return (
            f"full loc {loc} has its SWA slot {expected} since event {{{changes[-1].event}}}, but its entry was cleared"
        )
    return f"event {{{step.index}}} left the entry of full loc {loc} at {actual}"


@check("mask")
def check_mask(step: Step) -> Divergence | None:
    """Mask: a loaded copy restores each SWA row that it holds and that is mapped now, and touches no other.

    Rows mapped now but not held by the copy are holes and stay as they were (SGLang PRs 24036, 24857).
    """
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
    return step.diverges("mask-asymmetry", what, why, rows)


@check("contents")
def check_contents(step: Step) -> Divergence | None:
    """Contents: every slot an event may touch holds the row written there last, and a read brings it back."""
    if step.rows is not None:
        return _read_rows(step)
    for layer in step.touched:
        divergence = _sweep(step, layer)
        if divergence is not None:
            return divergence
    return None


def _sweep(step: Step, layer: int) -> Divergence | None:
    """Compare the whole layer with the model's memory; the dummy slot may hold anything."""
    memory = step.world.contents.layers[layer]
    rows = step.contents(layer)
    if rows.keys[1:] == memory[1:] and _values_match(rows.values, memory):
        return None
    wrong = [slot for slot in range(1, len(memory)) if not holds(rows, slot, memory[slot])]
    if not wrong:
        return None
    slot = wrong[0]
    found = _describe(step, rows, slot)
    what = f"slot {slot} of layer {layer} holds {found}, expected {_name(step, memory[slot])}"
    if len(wrong) > 1:
        what += f" ({len(wrong)} slots differ)"
    shown = [LocRow(slot, slot, None) for slot in wrong[:MAX_ROWS]]
    return step.diverges("wrong-content", what, f"event {{{step.index}}} left the wrong rows behind", shown)


def _read_rows(step: Step) -> Divergence | None:
    assert step.rows is not None
    world = step.world
    layer = step.read_layer
    memory = world.contents.layers[layer]
    slots = world.contents.slots(layer, step.read_locs, world.mapping.table)
    for i, slot in enumerate(slots):
        if not holds(step.rows, i, memory[slot]):
            loc = step.read_locs[i]
            what = (
                f"a read of full loc {loc} at layer {layer} brought {_describe(step, step.rows, i)}, "
                f"expected {_name(step, memory[slot])}"
            )
            return step.diverges("wrong-content", what, "", [LocRow(loc, slot, None)])
    return None


def _values_match(values: list[int] | None, memory: list[int]) -> bool:
    return values is None or [value - V_MARK if value else 0 for value in values[1:]] == memory[1:]


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
        return f"an unwritten row ({tag})"
    known = tags[tag]
    return f"token {known.position} of request {known.request} (layer {known.layer}, event {{{known.event}}})"
