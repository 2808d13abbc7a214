"""Rows: whoever holds the KV of a prefix, in whichever tier, holds that KV and no other.

Checked for every running request (all its tokens in full layers, its window in SWA layers), for
every node on the device and on the host, and for what attention read back.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....core.divergence import Divergence, LocRow
from ....targets.base import V_MARK, Rows
from ...check import Check
from ..step import EngineStep

__all__ = ["CHECK"]


def _run(step: EngineStep) -> Divergence | None:
    return _requests(step) or _reads(step) or _nodes(step)


def _reads(step: EngineStep) -> Divergence | None:
    world = step.world
    for request, start, layer, rows in step.reads:
        tags = world.row_tags(request, start, start + len(rows.keys), layer)
        for offset, tag in enumerate(tags):
            if not _holds(rows, offset, tag):
                what = f"attention of request {request} at layer {layer} read {_found(step, rows, offset)}"
                return step.diverges("wrong-content", CHECK.name, f"{what}, expected {world.name(tag)}")
    return None


def _requests(step: EngineStep) -> Divergence | None:
    world, mapping = step.world, step.mapping
    for number, view in step.requests.items():
        request = world.requests[number]
        for layer, swa in enumerate(world.swa_layers):
            start, stop = request.window(world.config.window) if swa else (0, request.computed)
            row = view.row[start:stop]
            slots = [mapping[loc] for loc in row] if swa else row
            tags = world.row_tags(number, start, start + len(row), layer)
            fault = _compare(step, step.contents[layer], slots, tags, _flying(step, swa))
            if fault is not None:
                position, slot, found, wanted = fault
                landed = _landed(step, layer, wanted) if swa and _wrote(step, number, start + position) else None
                what = f"slot {slot} of layer {layer}, token {start + position} of request {number}, holds {found}"
                return _report(step, f"{what}, expected {world.name(wanted)}", row[position], slot, landed)
    return None


def _wrote(step: EngineStep, number: int, position: int) -> bool:
    """Whether the event wrote this token of a request."""
    return any(span.request == number and span.start <= position < span.stop for span in step.written)


def _landed(step: EngineStep, layer: int, tag: int) -> int | None:
    """Another slot in which a row just written landed."""
    keys = step.contents[layer].keys
    return keys.index(tag) if tag in keys else None


def _report(step: EngineStep, what: str, loc: int, slot: int, landed: int | None) -> Divergence:
    if landed is None:
        return step.diverges("wrong-content", CHECK.name, what, rows=[LocRow(loc, slot, None)])
    why = f"the row was written to SWA slot {landed}: an answer that is not the mapping's was served"
    return step.diverges("stale-translation", CHECK.name, what, why, [LocRow(loc, slot, landed)])


def _nodes(step: EngineStep) -> Divergence | None:
    world = step.world
    _, host_flying = step.in_flight
    for item in step.placed:
        node = item.node
        before = world.tags.prefixes(item.before)
        prefixes = world.tags.prefixes(node.tokens, before[-1] if before else 0)
        for layer, swa in enumerate(world.swa_layers):
            tags = [world.tags.tag(prefix, layer) for prefix in prefixes]
            slots = node.swa if swa else node.full
            host = node.host_swa if swa else node.host_full
            tiers: list[tuple[str, Sequence[int] | None, list[Rows], set[int]]] = [
                ("slot", slots, step.contents, _flying(step, swa)),
                ("host slot", host, step.host_contents, set(host_flying.swa if swa else host_flying.full)),
            ]
            for name, places, contents, flying in tiers:
                if places is None:
                    continue
                fault = _compare(step, contents[layer], places, tags, flying)
                if fault is not None:
                    position, slot, found, wanted = fault
                    what = f"{name} {slot} of layer {layer}, token {len(item.before) + position} of node {node.node},"
                    what = f"{what} holds {found}, expected {world.name(wanted)}"
                    what += step.origin(slot) if swa and places is node.swa else ""
                    return step.diverges(
                        "wrong-content", CHECK.name, what, "who finds this node in the tree reads that"
                    )
    return None


def _flying(step: EngineStep, swa: bool) -> set[int]:
    device, _ = step.in_flight
    return set(device.swa if swa else device.full)


def _compare(
    step: EngineStep, rows: Rows, slots: Sequence[int], tags: list[int], flying: set[int]
) -> tuple[int, int, str, int] | None:
    """The first slot with the wrong row, as ``(position, slot, what it holds, tag wanted)``."""
    if not flying and [rows.keys[slot] for slot in slots] == tags:
        values = rows.values
        if values is None or [values[slot] - V_MARK for slot in slots] == tags:
            return None
    for position, (slot, tag) in enumerate(zip(slots, tags, strict=True)):
        if slot not in flying and not _holds(rows, slot, tag):
            return position, slot, _found(step, rows, slot), tag
    return None


def _holds(rows: Rows, slot: int, tag: int) -> bool:
    return rows.keys[slot] == tag and (rows.values is None or rows.values[slot] == tag + V_MARK)


def _found(step: EngineStep, rows: Rows, slot: int) -> str:
    key = step.world.name(rows.keys[slot])
    if rows.values is None or rows.values[slot] == (rows.keys[slot] + V_MARK if rows.keys[slot] else 0):
        return key
    return f"the key of {key} and another value"


CHECK = Check("rows", _run, order=150)
