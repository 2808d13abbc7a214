"""Drafts: the draft's pool holds the draft's KV of every final token, at the locs of the target's.

Checked for all tokens of running requests in full layers and their window in SWA layers, and for every node. With a
host tier, for the requests' own tokens alone: the draft's rows do not go to the host and back.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....core.divergence import Divergence, LocRow
from ....targets.base import V_MARK
from ...check import Check
from ..step import SpecStep

__all__ = ["CHECK"]


def _run(step: SpecStep) -> Divergence | None:
    return _requests(step) or _nodes(step)


def _requests(step: SpecStep) -> Divergence | None:
    world = step.world
    for number, view in step.requests.items():
        request = world.speculating(number)
        for layer, swa in enumerate(world.swa_layers):
            start = request.window(world.config.window)[0] if swa else 0
            start = max(start, step.undrafted(number, view))
            stop = max(start, request.drafted)
            tags = world.draft_tags(number, start, stop, layer)
            found = _wrong(step, layer, view.row[start:stop], tags, f"token {{}} of request {number}", start)
            if found is not None:
                return found
    return None


def _nodes(step: SpecStep) -> Divergence | None:
    world, bigram = step.world, step.world.config.bigram
    if not step.draft_in_tree:
        return None
    for node, item in zip(step.tree, step.placed, strict=True):
        if node.full is None:
            continue
        before = world.tags.prefixes(item.before)
        prefixes = world.tags.prefixes(node.tokens, before[-1] if before else 0)
        if bigram and node.after is not None:
            prefixes = [*prefixes[1:], *world.tags.prefixes([node.after], prefixes[-1])]
        for layer, swa in enumerate(world.swa_layers):
            locs = node.full if node.swa is not None or not swa else ()
            tags = [world.tags.tag(prefix, layer) for prefix in prefixes][: len(locs)]
            found = _wrong(step, layer, locs, tags, f"token {{}} of node {node.node}", len(item.before))
            if found is not None:
                return found
    return None


def _wrong(
    step: SpecStep, layer: int, locs: Sequence[int], tags: list[int], owner: str, start: int
) -> Divergence | None:
    rows, world = step.draft_contents[layer], step.world
    slots = [step.mapping[loc] for loc in locs] if world.swa_layers[layer] else locs
    for at, (slot, tag) in enumerate(zip(slots, tags, strict=True)):
        if rows.keys[slot] != tag or (rows.values is not None and rows.values[slot] != tag + V_MARK):
            what = f"slot {slot} of layer {layer}, {owner.format(start + at)}, holds {world.name(rows.keys[slot])}"
            what = f"{what} in the draft's pool, expected {world.name(tag)}"
            return step.diverges("wrong-content", CHECK.name, what, rows=[LocRow(locs[at], slot, None)])
    return None


CHECK = Check("drafts", _run, order=170)
