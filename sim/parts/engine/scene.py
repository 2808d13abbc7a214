"""The state that a divergence is about, as a few lines for people: who is involved, with what, and where they part."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from ...core.divergence import Divergence
from ...targets.base import FreeSlots
from ..check import Check, rule
from .concern import POOLS, Holder, Line, Places, holders, owners, places
from .step import EngineStep

__all__ = ["MAX_LINES", "scene"]

MAX_LINES = 25
"""Lines at most."""

_BY_RULES = frozenset({"lengths", "over-admission", "starvation", "prebuilt"})
"""Checks that count as the target does."""

_MAX_OWNERS = 4
_FEW = 12
_WIDTH = 116
_COLUMNS = 90
_LABEL = 9


def scene(step: EngineStep, check: Check, found: Divergence) -> tuple[str, ...]:
    """The lines: what the check asks for, what is, and the slots, nodes and requests that the divergence names."""
    wanted = places(step, found)
    lines = [
        *_wrapped(f"expected  {rule(check, found)}"),
        *_wrapped(f"actual    {found.what}"),
        *_wrapped(f"after event {found.event + 1} ({step.event.kind}): free pages {_pools(step.free)}"),
    ]
    lines += _counted(step, found)
    device, host = step.in_flight
    if step.copying:
        lines += [f"  queued copies use: device {_pools(device)}", f"                     host {_pools(host)}"]
    lines += _owned(step, wanted)
    involved, others = _sorted(step, found, wanted)
    blocks = [[f"> {it.name}: {it.note}", *_table(it, it.marked(wanted))] for it in involved]
    blocks += [[f"  {it.name}: {it.note}", *_table(it, [])] for it in others]
    names = [it.name for it in (*involved, *others)]
    while blocks and len(lines) + len(blocks[0]) < MAX_LINES:
        lines += [f"  {line}" for line in blocks.pop(0)]
        names.pop(0)
    if names:
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        lines.append(f"    not shown: {', '.join(names[:8])}{more}")
    return tuple(lines)


def _owned(step: EngineStep, wanted: Places) -> list[str]:
    """Who has the slots named, one a page: the first ones."""
    size = step.world.config.page_size
    lines = []
    for pool in POOLS:
        paged = size > 1 and not pool.startswith("host")
        for page in sorted({slot // size if paged else slot for slot in wanted[pool]}):
            what = f"page {page}, slots {page * size} to {(page + 1) * size - 1}" if paged else f"slot {page}"
            lines.append(f"  {pool} {what}: {', '.join(owners(step, pool, page)) or 'nobody'}")
    return lines[:_MAX_OWNERS]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent=" " * 10, break_on_hyphens=False)


def _counted(step: EngineStep, found: Divergence) -> list[str]:
    """By which rules the model counts: they are read off a release's code, and one that is misread is our mistake."""
    if found.check not in _BY_RULES or step.rules is None:
        return []
    known: dict[str, bool] = vars(step.rules)
    yes, no = (", ".join(name for name, value in known.items() if value is which) or "none" for which in (True, False))
    return _wrapped(
        f"counted by {yes}; not by {no} (rules as the adapter reads them off the target's code; if one does not fit "
        "it, because names have changed, this is no bug of the target)"
    )


def _pools(slots: FreeSlots) -> str:
    return f"full {_few(slots.full)}, SWA {_few(slots.swa)}"


def _few(numbers: Sequence[int]) -> str:
    shown = " ".join(map(str, sorted(numbers)[:_FEW]))
    return f"[{shown}]" if len(numbers) <= _FEW else f"[{shown} ...]"


def _sorted(step: EngineStep, found: Divergence, wanted: Places) -> tuple[list[Holder], list[Holder]]:
    """Who is named or has a slot that is named, in the order of naming; and the others."""
    named = re.findall(r"(?:request|node) \d+", found.what)
    everyone = list(holders(step))
    wide = {line.pool: set(line.numbers) for it in everyone if it.name in named for line in it.lines if line.pool}
    involved = [it for it in everyone if it.name in named or it.marked(wanted)]
    involved.sort(key=lambda it: named.index(it.name) if it.name in named else len(named))
    others = [it for it in everyone if it not in involved]
    others.sort(key=lambda it: not it.marked({"full": wide.get("full", set())}))
    return involved, others


def _table(holder: Holder, marks: Sequence[int]) -> list[str]:
    """What a holder has, token by token, with a mark under each token at which it has a slot that is named."""
    if not holder.lines:
        return []
    width = max(len(str(number)) for line in holder.lines for number in (*line.numbers, 0))
    room = _COLUMNS // (width + 1)
    longest = max(len(line.numbers) for line in holder.lines)
    start = max(0, min(marks[0] - room // 2, longest - room)) if marks else 0
    lines = [f"    {_row(line, start, room, width)}" for line in holder.lines]
    shown = [position - start for position in marks if start <= position < start + room]
    if shown and len(shown) < longest:
        row = [" " * width] * (max(shown) + 1)
        for position in shown:
            row[position] = "^".rjust(width)
        lines.append(f"    {' ' * _LABEL} {'    ' if start else ''}{' '.join(row)}")
    return lines


def _row(line: Line, start: int, room: int, width: int) -> str:
    numbers = line.numbers[start : start + room]
    before = "... " if start else ""
    after = " ..." if start + room < len(line.numbers) else ""
    return f"{line.name:<{_LABEL}} {before}{' '.join(str(it).rjust(width) for it in numbers)}{after}"
