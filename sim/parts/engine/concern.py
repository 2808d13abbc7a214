"""What of an engine's state a divergence is about: the slots that it names, and who has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...core.divergence import Divergence
from ...targets.engine import NodeView, RequestView
from .state import locks_of
from .step import EngineStep

__all__ = ["POOLS", "Holder", "Line", "holders", "owners", "places"]

POOLS = ("full", "SWA", "host full", "host SWA")
"""The pools, as messages name them."""

Places = dict[str, set[int]]
"""Pool -> slots."""

_PLACE = re.compile(r"(host full|host SWA|full|SWA) (page|slot|loc) (\d+)")
_LAYER = re.compile(r"(host )?slot (\d+) of layer (\d+)")


@dataclass(frozen=True)
class Line:
    """Slots of one pool that somebody has, one a token.

    Attributes:
        name: what they are, for people.
        pool: one of `POOLS`; empty for what are no slots.
        numbers: the slots.
    """

    name: str
    pool: str
    numbers: Sequence[int]


@dataclass(frozen=True)
class Holder:
    """A node or a request, with what it has.

    Attributes:
        name: as messages name it.
        note: what else is to be known of it.
        lines: tokens first, then its slots.
    """

    name: str
    note: str
    lines: tuple[Line, ...]

    def marked(self, wanted: Places) -> list[int]:
        """Positions of tokens at which it has one of these slots."""
        found = {
            position
            for line in self.lines
            for position, number in enumerate(line.numbers)
            if number in wanted.get(line.pool, ())
        }
        return sorted(found)


def places(step: EngineStep, found: Divergence) -> Places:
    """The slots that a divergence names."""
    size, swa_layers = step.world.config.page_size, step.world.swa_layers
    named: Places = {pool: set() for pool in POOLS}
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


def holders(step: EngineStep) -> Iterator[Holder]:
    """Every running request and every node."""
    for number, view in sorted(step.requests.items()):
        yield _request(step, number, view)
    for node in step.tree:
        yield _node(step, node)


def _request(step: EngineStep, number: int, view: RequestView) -> Holder:
    known = step.world.requests.get(number)
    if not view.row:
        return Holder(f"request {number}", "no locs yet", ())
    mapped = [_mapped(step, loc) for loc in view.row]
    note = f"the first {view.shared} of {len(view.row)} locs are the tree's"
    if view.evicted:
        note += f", the first {view.evicted} left its window"
    lines = [Line("full locs", "full", view.row), Line("mapped to", "SWA", mapped)]
    if known is not None:
        lines.insert(0, Line("tokens", "", known.tokens[: len(view.row)]))
    return Holder(f"request {number}", note, tuple(lines))


def _node(step: EngineStep, node: NodeView) -> Holder:
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
    slots = (Line(name, pool, numbers) for name, pool, numbers in held if numbers is not None)
    return Holder(f"node {node.node}", f"under {under}; locks: {locks}", (Line("tokens", "", node.tokens), *slots))


def _mapped(step: EngineStep, loc: int) -> int:
    """What a loc maps to; -1 where it is none."""
    return step.mapping[loc] if 0 <= loc < len(step.mapping) else -1


def owners(step: EngineStep, pool: str, page: int) -> list[str]:
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
