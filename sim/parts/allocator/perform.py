"""From an event to the target's call and the world's change: one pair of functions an event type.

`CALLS` runs the event on the target and notes what it answered; `ADOPTS` then enters it in the
world. Between the two, the early checks look at slots that were handed out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...targets.base import Batch
from ..declared import Declared
from . import events as ev
from .checks import Step
from .perform_declared import adopt_declared, call_declared

__all__ = ["ADOPTS", "CALLS", "adopt", "call"]


def call(step: Step) -> None:
    """Run a step's event on the target."""
    if isinstance(step.event, Declared):
        call_declared(step, step.event)
    else:
        CALLS[type(step.event)](step, step.event)


def adopt(step: Step) -> None:
    """Enter a step's event in the world."""
    if isinstance(step.event, Declared):
        adopt_declared(step, step.event)
    else:
        ADOPTS[type(step.event)](step, step.event)


def _allocated(step: Step, items: list[tuple[int, int]], locs: list[int] | None, tail: int | None = None) -> None:
    world = step.world
    full = sum(world.new_pages(request, count) for request, count in items)
    swa = full if tail is None else world.config.pages(tail)
    step.room = full <= len(world.full.free) and swa <= len(world.swa.free)
    step.refused = locs is None
    step.mapping = step.target.raw_mapping()
    if locs is None:
        return
    wanted = sum(count for _, count in items)
    if len(locs) != wanted:
        step.miscount = f"{wanted} tokens were asked for, {len(locs)} locs came back"
        return
    step.grants = world.grants(items, locs, step.mapping, tail)


def _lens(step: Step, items: list[tuple[int, int]]) -> tuple[list[int], list[int], list[int]]:
    world = step.world
    prefix = [len(world.locs(request)) for request, _ in items]
    seq = [length + count for length, (_, count) in zip(prefix, items, strict=True)]
    return prefix, seq, [world.last_loc(request) for request, _ in items]


def _alloc(step: Step, event: ev.Alloc) -> None:
    _allocated(step, [(event.request, event.count)], step.target.alloc(event.count))


def _alloc_extend(step: Step, event: ev.AllocExtend) -> None:
    items = list(event.items)
    _allocated(step, items, step.target.alloc_extend(*_lens(step, items)))


def _alloc_decode(step: Step, event: ev.AllocDecode) -> None:
    items = [(request, 1) for request in event.requests]
    _, seq, last = _lens(step, items)
    _allocated(step, items, step.target.alloc_decode(seq, last))


def _alloc_tail(step: Step, event: ev.AllocExtendSwaTail) -> None:
    items = [(event.request, event.count)]
    (prefix,), (seq,), (last,) = _lens(step, items)
    _allocated(step, items, step.target.alloc_extend_swa_tail(prefix, seq, last, event.tail), event.tail)


def _free(step: Step, event: ev.Free) -> None:
    locs = step.world.locs(event.request, event.start)
    table = step.world.mapping.table
    step.target.free([loc for loc in locs if table[loc]], [loc for loc in locs if not table[loc]])


def _free_group_end(step: Step, event: ev.FreeGroupEnd) -> None:
    if not step.world.group_open:
        step.world.saw("idle_group_end")
    step.target.free_group_end()


def _set_mapping(step: Step, event: ev.SetMapping) -> None:
    swa = step.target.set_mapping(step.world.locs(event.request, event.start, event.stop))
    step.grants = step.world.remap_grants(event.request, event.start, swa)


def _register_mapping(step: Step, event: ev.RegisterMapping) -> None:
    swa = step.target.register_mapping(step.world.locs(event.request, event.start, event.stop))
    step.grants = step.world.remap_grants(event.request, event.start, swa)


def _begin_forward(step: Step, event: ev.BeginForward) -> None:
    tokens = [(request, position) for request, start, stop in event.spans for position in range(start, stop)]
    locs = step.world.begin_forward(tokens)
    step.target.begin_forward(Batch(locs, event.storage, event.offset, event.precomputed))


def _write_kv(step: Step, event: ev.WriteKv) -> None:
    tags = step.world.new_tags(event.layer)
    step.target.write_kv(event.layer, tags)
    step.written = (event.layer, tags)
    step.touched = (event.layer,)


def _read_kv(step: Step, event: ev.ReadKv) -> None:
    world = step.world
    assert world.forward is not None
    swa = world.contents.swa[event.layer]
    step.read_layer = event.layer
    for span in world.forward.reach(world.config.window if swa else None):
        locs = world.locs(*span)
        step.read_locs += world.mapped(locs) if swa else locs
    if step.read_locs:
        step.rows = step.target.read_kv(event.layer, step.read_locs)


def _translate(step: Step, event: ev.Translate) -> None:
    world, target = step.world, step.target
    if event.source == "batch":
        assert world.forward is not None
        step.asked = world.forward.locs[event.start : event.stop]
        step.answers = target.translate_batch(event.start, event.stop)
        if world.forward.changed:
            world.saw("asked_after_change")
        return
    step.asked = world.locs(event.request, event.start, event.stop)
    if event.source == "kept":
        world.ask_kept(step.asked)
    step.asked = [*step.asked, *event.padding(len(step.asked))]
    step.answers = target.translate(step.asked, event.source)


def _cpu_copy(step: Step, event: ev.CpuCopy) -> None:
    step.target.cpu_copy(event.copy, step.world.locs(event.request, event.start, event.stop))


def _load_cpu_copy(step: Step, event: ev.LoadCpuCopy) -> None:
    count = len(step.world.copies[event.copy][1])
    step.target.load_cpu_copy(event.copy, step.world.locs(event.request, event.start, event.start + count))
    step.touched = range(len(step.world.config.layers))


def _move(step: Step, event: ev.Move) -> None:
    targets, sources = _move_locs(step, event)
    step.target.move(targets, sources)
    step.touched = range(len(step.world.config.layers))


def _move_locs(step: Step, event: ev.Move) -> tuple[list[int], list[int]]:
    locs = step.world.locs
    return (
        locs(event.request, event.target, event.target + event.count),
        locs(event.request, event.source, event.source + event.count),
    )


CALLS: dict[type[ev.Event], Callable[[Step, Any], None]] = {
    ev.Alloc: _alloc,
    ev.AllocExtend: _alloc_extend,
    ev.AllocDecode: _alloc_decode,
    ev.AllocExtendSwaTail: _alloc_tail,
    ev.Free: _free,
    ev.FreeSwa: lambda step, e: step.target.free_swa(step.world.locs(e.request, e.start, e.stop)),
    ev.FreeGroupBegin: lambda step, e: step.target.free_group_begin(),
    ev.FreeGroupEnd: _free_group_end,
    ev.SetMapping: _set_mapping,
    ev.RegisterMapping: _register_mapping,
    ev.Backup: lambda step, e: step.target.backup(),
    ev.Restore: lambda step, e: step.target.restore(),
    ev.Clear: lambda step, e: step.target.clear(),
    ev.BeginForward: _begin_forward,
    ev.WriteKv: _write_kv,
    ev.ReadKv: _read_kv,
    ev.Translate: _translate,
    ev.EndForward: lambda step, e: step.target.end_forward(),
    ev.CpuCopy: _cpu_copy,
    ev.LoadCpuCopy: _load_cpu_copy,
    ev.Move: _move,
}
"""Event type -> run it on the target."""


def _adopt_allocation(step: Step, event: ev.Event) -> None:
    if step.refused:
        step.world.saw("exhausted")
        return
    step.world.extend(step.grants)
    if isinstance(event, ev.AllocExtendSwaTail) and event.tail < event.count:
        step.world.saw("tail_allocated")


def _adopt_set_mapping(step: Step, event: ev.SetMapping) -> None:
    step.world.saw("mapped_in_place")
    step.world.remap(step.grants)


def _adopt_register_mapping(step: Step, event: ev.RegisterMapping) -> None:
    world = step.world
    if step.grants:
        world.saw("mapping_replaced")
    old = [world.mapping.table[grant.loc] for grant in step.grants]
    world.remap(step.grants)
    world.release_swa(old)


def _adopt_begin_forward(step: Step, event: ev.BeginForward) -> None:
    if event.storage == "reused":
        step.world.saw("storage_reused")
    elif event.storage == "view":
        step.world.saw("view_at_offset")
    if event.precomputed:
        step.world.saw("precomputed")
        assert step.world.forward is not None
        step.world.mapping.use(step.index, step.world.forward.locs)


def _adopt_write(step: Step, event: ev.WriteKv) -> None:
    assert step.written is not None
    step.world.write(*step.written)


def _adopt_read(step: Step, event: ev.ReadKv) -> None:
    if step.rows is not None and step.world.contents.swa[event.layer]:
        step.world.saw("window_read")


def _adopt_end_forward(step: Step, event: ev.EndForward) -> None:
    step.world.forward = None


def _adopt_load(step: Step, event: ev.LoadCpuCopy) -> None:
    count = len(step.world.copies[event.copy][1])
    step.world.load_cpu_copy(event.copy, step.world.locs(event.request, event.start, event.start + count))


def _nothing(step: Step, event: ev.Event) -> None:
    """The event changes nothing the world keeps."""


ADOPTS: dict[type[ev.Event], Callable[[Step, Any], None]] = {
    ev.Alloc: _adopt_allocation,
    ev.AllocExtend: _adopt_allocation,
    ev.AllocDecode: _adopt_allocation,
    ev.AllocExtendSwaTail: _adopt_allocation,
    ev.Free: lambda step, e: step.world.free(e.request, e.start),
    ev.FreeSwa: lambda step, e: step.world.free_swa(e.request, e.start, e.stop),
    ev.FreeGroupBegin: lambda step, e: step.world.begin_group(),
    ev.FreeGroupEnd: lambda step, e: step.world.end_group(),
    ev.SetMapping: _adopt_set_mapping,
    ev.RegisterMapping: _adopt_register_mapping,
    ev.Backup: lambda step, e: step.world.backup(),
    ev.Restore: lambda step, e: step.world.restore(),
    ev.Clear: lambda step, e: step.world.clear(),
    ev.BeginForward: _adopt_begin_forward,
    ev.WriteKv: _adopt_write,
    ev.ReadKv: _adopt_read,
    ev.Translate: _nothing,
    ev.EndForward: _adopt_end_forward,
    ev.CpuCopy: lambda step, e: step.world.cpu_copy(e.copy, step.world.locs(e.request, e.start, e.stop)),
    ev.LoadCpuCopy: _adopt_load,
    ev.Move: lambda step, e: step.world.move(*_move_locs(step, e)),
}
"""Event type -> enter it in the world."""
