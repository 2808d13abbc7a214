"""The state that a divergence is about, as a few lines for people: slots named, who has them, and with what."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...core.divergence import Divergence
from ...targets.base import FreeSlots
from ...targets.engine import NodeView, RequestView
from ..check import Check, rule
from .step import EngineStep

__all__ = ["MAX_LINES", "locks_of", "scene"]

_Places = dict[str, set[int]]
"""Pool -> slots."""

_PLACE = re.compile(r"(host full|host SWA|full|SWA) (page|slot|loc) (\d+)")
_LAYER = re.compile(r"(host )?slot (\d+) of layer (\d+)")


@dataclass(frozen=True)
class _Line:
    """Slots of one pool that somebody has, one a token.

    Attributes:
        name: what they are, for people.
        pool: one of `_POOLS`; empty for what are no slots.
        numbers: the slots.
    """

    name: str
    pool: str
    numbers: Sequence[int]


@dataclass(frozen=True)
class _Holder:
    """A node or a request, with what it has.

    Attributes:
        name: as messages name it.
        note: what else is to be known of it.
        lines: tokens first, then its slots.
    """

    name: str
    note: str
    lines: tuple[_Line, ...]

    def marked(self, wanted: _Places) -> list[int]:
        """Positions of tokens at which it has one of these slots."""
        found = {
            position
            for line in self.lines
            for position, number in enumerate(line.numbers)
            if number in wanted.get(line.pool, ())
        }
        return sorted(found)


def _named(step: EngineStep, found: Divergence) -> _Places:
    """The slots that a divergence names."""
    size, swa_layers = step.world.config.page_size, step.world.swa_layers
    named: _Places = {pool: set() for pool in _POOLS}
    for pool, unit, digits in _PLACE.findall(found.what):
        number = int(digits)
        if unit != "page":
            named[pool].add(number)
        elif pool.startswith("host"):  # counted from 1, each a slot
            named[pool].add(number - 1)
        else:
            named[pool].update(range(number * size, (number + 1) * size))
    for host, digits, layer in _LAYER.findall(found.what):
        named[host + ("SWA" if swa_layers[int(layer)] else "full")].add(int(digits))
    named["full"].update(row.loc for row in found.rows)
    return named


def _holders(step: EngineStep) -> Iterator[_Holder]:
    """Every running request and every node."""
    for number, view in sorted(step.requests.items()):
        yield _request(step, number, view)
    for node in step.tree:
        yield _node(step, node)


def _request(step: EngineStep, number: int, view: RequestView) -> _Holder:
    known = step.world.requests.get(number)
    if not view.row:
        return _Holder(f"request {number}", "no locs yet", ())
    mapped = [_mapped(step, loc) for loc in view.row]
    note = f"the first {view.shared} of {len(view.row)} locs are the tree's"
    if view.evicted:
        note += f", the first {view.evicted} left its window"
    lines = [_Line("full locs", "full", view.row), _Line("mapped to", "SWA", mapped)]
    if known is not None:
        lines.insert(0, _Line("tokens", "", known.tokens[: len(view.row)]))
    return _Holder(f"request {number}", note, tuple(lines))


def _node(step: EngineStep, node: NodeView) -> _Holder:
    under = "the root" if node.parent is None else f"node {node.parent}"
    locks = locks_of(node)
    mapped = None if node.full is None else tuple(_mapped(step, loc) for loc in node.full)
    held = (
        ("full locs", "full", node.full),
        ("mapped to", "SWA", mapped if mapped != (node.swa or (0,) * len(mapped or ())) else None),
        ("SWA locs", "SWA", node.swa),
        ("host full", "host full", node.host_full),
        ("host SWA", "host SWA", node.host_swa),
    )
    slots = (_Line(name, pool, numbers) for name, pool, numbers in held if numbers is not None)
    return _Holder(f"node {node.node}", f"under {under}; locks: {locks}", (_Line("tokens", "", node.tokens), *slots))


def _mapped(step: EngineStep, loc: int) -> int:
    """What a loc maps to; -1 where it is none."""
    return step.mapping[loc] if 0 <= loc < len(step.mapping) else -1


def _owners(step: EngineStep, pool: str, page: int) -> list[str]:
    """Who has a page, or a slot of the host: the free list, nodes, requests, queued copies."""
    host, kind = pool.startswith("host"), "full" if pool.endswith("full") else "swa"
    size = 1 if host else step.world.config.page_size
    slots = set(range(page * size, (page + 1) * size))
    free: list[int] = getattr(step.host_free if host else step.free, kind)
    times = f" {free.count(page)} times" if free.count(page) > 1 else ""
    found = [f"the free list{times}"] if page in free else []
    name = f"host_{kind}" if host else kind
    found += [f"node {node.node}" for node in step.tree if slots.intersection(getattr(node, name) or ())]
    if not host:
        found += [f"request {it}" for it, view in sorted(step.requests.items()) if slots & _used(step, view, kind)]
    sides = [copy.host if host else copy.device for copy in step.copying]
    found += [f"queued copy {it}" for it, side in enumerate(sides, 1) if slots.intersection(getattr(side, kind))]
    return found


def _used(step: EngineStep, view: RequestView, kind: str) -> set[int]:
    return set(view.row) if kind == "full" else {_mapped(step, loc) for loc in view.row}


MAX_LINES = 25
"""Lines at most."""

_BY_RULES = frozenset({"lengths", "over-admission", "starvation", "prebuilt"})
"""Checks that count as the target does."""

_POOLS = ("full", "SWA", "host full", "host SWA")
"""The pools, as messages name them."""

_MAX_OWNERS = 4
_FEW = 12
_WIDTH = 116
_COLUMNS = 90
_LABEL = 9


def scene(step: EngineStep, check: Check, found: Divergence) -> tuple[str, ...]:
    """The lines: what the check asks for, what is, and the slots, nodes and requests that the divergence names."""
    wanted = _named(step, found)
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


def _owned(step: EngineStep, wanted: _Places) -> list[str]:
    """Who has the slots named, one a page: the first ones."""
    size = step.world.config.page_size
    lines = []
    for pool in _POOLS:
        paged = size > 1 and not pool.startswith("host")
        for page in sorted({slot // size if paged else slot for slot in wanted[pool]}):
            what = f"page {page}, slots {page * size} to {(page + 1) * size - 1}" if paged else f"slot {page}"
            lines.append(f"  {pool} {what}: {', '.join(_owners(step, pool, page)) or 'no owner'}")
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


def _sorted(step: EngineStep, found: Divergence, wanted: _Places) -> tuple[list[_Holder], list[_Holder]]:
    """Who is named or has a slot that is named, in the order of naming; and the others."""
    named = re.findall(r"(?:request|node) \d+", found.what)
    everyone = list(_holders(step))
    wide = {line.pool: set(line.numbers) for it in everyone if it.name in named for line in it.lines if line.pool}
    involved = [it for it in everyone if it.name in named or it.marked(wanted)]
    involved.sort(key=lambda it: named.index(it.name) if it.name in named else len(named))
    others = [it for it in everyone if it not in involved]
    others.sort(key=lambda it: not it.marked({"full": wide.get("full", set())}))
    return involved, others


def _table(holder: _Holder, marks: Sequence[int]) -> list[str]:
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


def _row(line: _Line, start: int, room: int, width: int) -> str:
    numbers = line.numbers[start : start + room]
    before = "... " if start else ""
    after = " ..." if start + room < len(line.numbers) else ""
    return f"{line.name:<{_LABEL}} {before}{' '.join(str(it).rjust(width) for it in numbers)}{after}"


def locks_of(node: NodeView) -> str:
    """A node's locks; those that the engine does not show are said to be unseen."""
    swa = "unseen" if node.swa_locks < 0 else node.swa_locks
    return f"{node.full_locks} full, {swa} SWA" + (f", {node.host_locks} host" if node.host_locks else "")
