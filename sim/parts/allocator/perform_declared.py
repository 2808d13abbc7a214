"""An event of somebody's file, from the call to what the world takes over. See `staleloc.sim.parts.allocator.perform`.

Which slots the call handed out is read from the target's table; they are judged like those of any other allocation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ....models.repack import repack
from ....models.world import Grant
from ..declared import Cache, Declared, Repack
from ..hooks import guarded, meaning
from . import events as ev
from .checks import Step

__all__ = ["adopt_declared", "call_declared"]


def call_declared(step: Step, event: Declared) -> None:
    """Run the event on the target, enter what it gave up, and note what it handed out."""
    parts = meaning(event, step.ledger)

    def act(allocator: Any, pool: Any) -> None:
        guarded(event, "call", event.call, Cache(allocator, pool, step.world.requests))

    step.world.saw(f"event {event.kind}")
    step.target.declared(event.kind, act)
    step.mapping = step.target.raw_mapping()
    for part in parts:
        _ENTER[type(part)](step, part)


def adopt_declared(step: Step, event: Declared) -> None:
    """Take over what was handed out."""
    if step.moved is None:
        step.world.remap(step.grants)
        return
    layers = [layer for layer, swa in enumerate(step.world.contents.swa) if swa]
    held = {layer: step.contents(layer).keys for layer in layers}
    repack(step.world, step.grants, step.moved, held, step.mapping)
    step.touched = layers


def _slot(step: Step, loc: int) -> int:
    return step.mapping[loc] if loc < len(step.mapping) else 0


def _granted(step: Step, event: Any) -> list[Grant]:
    locs = step.world.locs(event.request, event.start, event.stop)
    return step.world.remap_grants(event.request, event.start, [_slot(step, loc) for loc in locs])


def _set_mapping(step: Step, event: ev.SetMapping) -> None:
    step.grants = _granted(step, event)


def _register_mapping(step: Step, event: ev.RegisterMapping) -> None:
    step.grants = _granted(step, event)
    step.world.release_swa([step.world.mapping.table[grant.loc] for grant in step.grants])


def _repack(step: Step, event: Repack) -> None:
    """All tokens of each page of which one has another slot now. Their pages are free for the others."""
    world, size = step.world, step.world.config.page_size
    table = world.mapping.table
    live = list(_live(step))
    pages = {table[grant.loc] // size for grant in live if grant.swa != table[grant.loc]}
    step.grants = [grant for grant in live if table[grant.loc] // size in pages]
    step.moved = [table[grant.loc] for grant in step.grants]
    world.release_swa(step.moved)


def _live(step: Step) -> Iterator[Grant]:
    """Every token that has an SWA slot, with the one that the target's table names."""
    for request, locs in step.world.requests.items():
        for position, loc in enumerate(locs):
            if step.world.mapping.table[loc]:
                yield Grant(request, position, loc, _slot(step, loc))


_ENTER: dict[type[ev.Event], Callable[[Step, Any], None]] = {
    ev.Free: lambda step, e: step.world.free(e.request, e.start),
    ev.FreeSwa: lambda step, e: step.world.free_swa(e.request, e.start, e.stop),
    ev.SetMapping: _set_mapping,
    ev.RegisterMapping: _register_mapping,
    Repack: _repack,
}
"""What an event may mean -> enter what it gives up in the world, and note what it hands out."""
