"""The last lines of a script: compare what the divergence is about, and say whether it shows."""

from __future__ import annotations

import re

from ....models.config import SWA
from ...core.divergence import Divergence
from ...parts.allocator import events as ev
from ...parts.allocator.declared import DeclaredCall
from .dialect import Lines
from .steps import Steps

__all__ = ["last_step"]


def last_step(steps: Steps, event: ev.Event, divergence: Divergence) -> Lines:
    """The lines of the diverging event, with the comparison at their end."""
    asked = _question(steps, event)
    calls, books = steps.write(event)
    if divergence.kind == "crash":
        return _crash(calls, event, divergence)
    if divergence.check == "conservation" and isinstance(event, _ALLOCATIONS) and "allocation" in divergence.what:
        return [*calls, _REFUSAL]
    match divergence.check:
        case "alias" | "bounds":
            return [*calls, *_grants(steps, event, books), *_RETURN]
        case "translation":
            return [*calls, *_translation(steps, event, asked), *_RETURN]
        case "contents" if isinstance(event, ev.ReadKv):
            return [*calls, *_translation(steps, event, asked), *_RETURN]
        case "mapping" if not divergence.rows:
            return [*calls, *_unmapped(steps, event), *_RETURN]
        case "mapping":
            return [*calls, *books, *_entries(divergence), *_RETURN]
        case "ownership":
            return [*calls, *books, *_pages(steps, "wrong_pages(free_{pool}(), {owned}, {pages})", _OWNED), *_RETURN]
        case "conservation":
            lost = "lost_pages(free_{pool}(), {owned}, {{slot // {size} for slot in waiting_{pool}}}, {pages})"
            return [*calls, *books, *_pages(steps, lost, _LOST), *_RETURN]
        case "availability":
            return [*calls, *_room(steps), *_RETURN]
        case _:
            compare = "expected, actual = differing(memory, [rows(n) for n in range(len(layers))])"
            return [*calls, *books, compare, 'what = "contents of (layer, slot)"', *_RETURN]


_ALLOCATIONS = (ev.Alloc, ev.AllocExtend, ev.AllocDecode, ev.AllocExtendSwaTail)
_REFUSAL = 'return report("the allocation fits and is", "granted", "refused" if new is None else "granted")'
_RETURN = ["return report(what, expected, actual)"]
_OWNED = "pages that are free and owned, free twice, or not in the pool"
_LOST = "pages that nobody owns and that are in no free list"


def _question(steps: Steps, event: ev.Event) -> str:
    """The full locs that the event's answer is about, as an expression."""
    if isinstance(event, ev.Translate):
        return steps.asked(event)
    if isinstance(event, ev.ReadKv):
        return steps.locs(steps.attended(event.layer))
    return "batch"


def _crash(calls: Lines, event: ev.Event, divergence: Divergence) -> Lines:
    raised = re.search(r" raised (\w+)", divergence.what)
    name = raised[1] if raised else "Exception"
    return [
        "try:",
        *(f"    {line}" for line in calls),
        "except Exception as error:",
        f'    if type(error).__name__ != "{name}" or error.__traceback__.tb_next is None:',
        "        raise  # not the engine's",
        f'    return report("{event.kind}", "no exception", f"{{type(error).__name__}}: {{error}}")',
        f'return report("{event.kind}", "no exception", "no exception")',
    ]


def _grants(steps: Steps, event: ev.Event, books: Lines) -> Lines:
    """Slots handed out, judged before they are entered in the books."""
    config = steps.config
    lines = ['what = "slots that were not free, not in the pool or not at their place in a page"', "expected = []"]
    if isinstance(event, DeclaredCall) and not steps.grants:
        now = "[table()[loc] if slot else 0 for loc, slot in zip(full[request], swa[request])]"
        grants = f"[(request, 0, {now}) for request in full]"
        return [*lines, f"actual = wrong_grants({{}}, {grants}, {config.page_size}, {config.swa_pages})"]
    if not isinstance(event, _ALLOCATIONS):
        grants = ", ".join(f"({request}, {start}, slots)" for request, start, _ in steps.grants)
        return [*lines, f"actual = wrong_grants(swa, [{grants}], {config.page_size}, {config.swa_pages})"]
    full, swa, at = [], [], 0
    tail = event.tail if isinstance(event, ev.AllocExtendSwaTail) else None
    for request, start, count in steps.grants:
        part = "new" if len(steps.grants) == 1 else f"new[{at}:{at + count}]"
        full.append(f"({request}, {start}, {part})")
        swa.append(f"({request}, {start}, {steps.swa_of(part, count, tail)})")
        at += count
    return [
        f"if len(new) != {at}:",
        f'    return report("locs handed out", {at}, len(new))',
        *lines,
        f"actual = wrong_grants(full, [{', '.join(full)}], {config.page_size}, {config.full_pages})",
        f"actual = actual or wrong_grants(swa, [{', '.join(swa)}], {config.page_size}, {config.swa_pages})",
    ]


def _translation(steps: Steps, event: ev.Event, asked: str) -> Lines:
    if isinstance(event, ev.WriteKv):
        return [
            f'what = "SWA slots that the batch was written to at layer {event.layer}"',
            "expected = [table()[loc] for loc in batch]",
            f"actual = landed(rows({event.layer}), {steps.tags})",
        ]
    if isinstance(event, ev.ReadKv):
        swa = steps.config.layers[event.layer] == SWA
        slots = f"table()[loc] for loc in {asked}" if swa else f"loc for loc in {asked}"
        return [
            f'what = "rows that a read of layer {event.layer} brought"',
            f"expected = [rows({event.layer})[slot] for slot in ({slots})]",
            "actual = got",
        ]
    lines = [
        'what = "SWA locs"',
        f"expected = [table()[loc] if loc >= 0 else -1 for loc in {asked}]",
        "actual = answer",
    ]
    return lines


def _unmapped(steps: Steps, event: ev.Event) -> Lines:
    """Tokens that are due an SWA slot and got none, or a table of another size."""
    size = steps.config.full_size + steps.config.page_size
    lines = [
        f"if len(table()) not in ({size}, {size + 1}):  # with or without the final -1",
        f'    return report("entries of the mapping", {size}, len(table()))',
    ]
    tail = f"[-{event.tail}:]" if isinstance(event, ev.AllocExtendSwaTail) else ""
    source = f"new{tail}" if isinstance(event, _ALLOCATIONS) else "[]"
    if isinstance(event, DeclaredCall):
        source = "[loc for request in full for loc, slot in zip(full[request], swa[request]) if slot]"
    return [
        *lines,
        'what = "new full locs without the SWA slot that they are due"',
        "expected = []",
        f"actual = [loc for loc in {source} if table()[loc] == 0]",
    ]


def _room(steps: Steps) -> Lines:
    size = steps.config.page_size
    return [
        'what = "tokens that are available"',
        f'expected = {{"full": {size} * len(free_full()), "swa": {size} * len(free_swa())}}',
        'actual = dict(zip(("full", "swa"), room()))',
    ]


def _entries(divergence: Divergence) -> Lines:
    locs = tuple(row.loc for row in divergence.rows)
    return [
        "must = {loc: slot for request in full for loc, slot in zip(full[request], swa[request])}",
        'what = "entries of the mapping"',
        f"expected = {{loc: must.get(loc, 0) for loc in {locs}}}",
        "actual = {loc: table()[loc] for loc in expected}",
    ]


def _pages(steps: Steps, compare: str, what: str) -> Lines:
    config = steps.config
    sides = []
    for pool, pages in (("full", config.full_pages), ("swa", config.swa_pages)):
        owned = f"{{slot // {config.page_size} for slots in {pool}.values() for slot in slots if slot}}"
        side = compare.format(pool=pool, owned=owned, pages=pages, size=config.page_size)
        sides.append(f'    "{pool}": {side},')
    return [f'what = "{what}"', 'expected = {"full": [], "swa": []}', "actual = {", *sides, "}"]
