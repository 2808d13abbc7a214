"""Translation: every loc a target translates, from a cache or not, is what the mapping says now.

Three ways to see it: the answer of a translation, the slot in which a written row landed, and the
row that a read brought back.
"""

from __future__ import annotations

from .....models.world import World
from ....core.divergence import Divergence, LocRow
from .base import Check, Step

__all__ = ["CHECK"]


def _run(step: Step) -> Divergence | None:
    if step.asked:
        return _asked(step)
    if step.written is not None:
        return _written(step)
    if step.rows is not None:
        return _read(step)
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
        return step.diverges("stale-translation", CHECK.name, what)
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


def _read(step: Step) -> Divergence | None:
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
    return step.diverges("stale-translation", CHECK.name, what, _why(step, rows[0]), rows)


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


def _why(step: Step, row: LocRow) -> str:
    if row.stale_at is not None:
        asked = row.last_correct
        before = f"translated at event {{{asked}}}, " if asked is not None and asked < row.stale_at else ""
        return (
            f"{before}mapping of full loc {row.loc} changed from {row.actual} to "
            f"{step.world.mapping.value_at(row.loc, row.stale_at)} at event {{{row.stale_at}}} by "
            f"[{row.stale_at}], the old answer served at event {{{step.index}}}"
        )
    if not row.actual:
        return (
            f"full loc {row.loc} has SWA slot {row.expected}; the answer at event {{{step.index}}} was that it has none"
        )
    others = [loc for loc, swa in enumerate(step.world.mapping.table) if swa == row.actual]
    whose = f"full loc {others[0]}" if others else "a loc that was mapped to it earlier"
    return (
        f"SWA slot {row.actual} is the translation of {whose}, served for full loc {row.loc} at event {{{step.index}}}"
    )


CHECK = Check("translation", _run)
