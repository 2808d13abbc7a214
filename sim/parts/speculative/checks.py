"""Checks of speculative decode: keys, lengths, and what drafts leave and read."""

from __future__ import annotations

from collections.abc import Sequence

from ....models.speculative import TokenLen
from ...core.divergence import Divergence, LocRow
from ..check import check, holds
from ..engine.events import Admit
from .step import SpecStep

__all__ = ["check_keys", "check_lengths", "check_leftovers", "check_window", "check_reads", "check_drafts"]


@check("keys", order=20)
def check_keys(step: SpecStep) -> Divergence | None:
    """Keys: n tokens have n keys or, where keys are bigrams, n - 1, and the tree has whole pages of keys.

    So what a request takes from the tree, and what it shares with it, ends with its keys and not with its tokens.
    """
    world, event = step.world, step.event
    config = world.config
    if step.admission is not None and isinstance(event, Admit):
        prompt = TokenLen(world.requests[event.request].prompt)
        most, cached = prompt.keys(config.bigram).pages(config.page_size), step.admission.cached
        if cached > most.count:
            what = f"request {event.request} was given {cached} keys from the cache and can have {most.count}"
            return step.diverges("misaligned", what, "a length in tokens was taken for one in keys")
    for number, view in step.requests.items():
        request = world.requests[number]
        known = TokenLen(min(len(request.tokens), request.computed + config.bigram))
        keys = known.keys(config.bigram).pages(config.page_size)
        if view.shared > keys.count:
            what = f"request {number} shares {view.shared} keys with the tree and has {keys.count} in whole pages"
            return step.diverges("misaligned", what, "a length in tokens was taken for one in keys")
    return None


@check("lengths", order=50)
def check_lengths(step: SpecStep) -> Divergence | None:
    """Lengths: what the target says is committed and allocated of each request is what the model says.

    Committed are all accepted tokens that the scheduler was told of, and allocated is every slot of the request's row.
    """
    for number, view in step.requests.items():
        request = step.world.speculating(number)
        committed = step.world.counted(number)
        if view.committed is not None and view.committed != committed:
            what = f"request {number} has {view.committed} committed tokens, expected {committed}"
            return step.diverges("wrong-content", what)
        if len(view.row) != request.allocated:
            kind = "leak" if len(view.row) < request.allocated else "out-of-bounds"
            what = f"request {number} has {len(view.row)} allocated tokens, expected {request.allocated}"
            return step.diverges(kind, what, "its slots are freed by this length when it ends")
    return None


@check("leftovers", order=70)
def check_leftovers(step: SpecStep) -> Divergence | None:
    """Leftovers: a slot that is free is mapped to nothing, so nothing of a rejected draft can be read or freed again.

    Where a restore does not put the mapping back, entries of what it took back may stay until the slots are handed out
    again, for nobody can ask for them before.
    """
    world, size = step.world, step.world.config.page_size
    if not world.config.spec_ahead and not world.rules.restores_mapping:
        return None
    for page in step.free.full:
        for loc in range(page * size, (page + 1) * size):
            if step.mapping[loc]:
                what = f"full loc {loc} is free and maps to SWA loc {step.mapping[loc]}"
                return step.diverges("wrong-mapping", what, rows=[LocRow(loc, 0, step.mapping[loc])])
    return None


@check("window", order=130)
def check_window(step: SpecStep) -> Divergence | None:
    """Window: a request that is prepared for a step keeps no SWA slots of its own far in front of its window.

    Whole pages are given up, and an engine may keep one page more than the window needs; its first step need not give
    up any. Without this, a path that never evicts takes SWA slots without end and shows in nothing else (SGLang PR
    34924).
    """
    for number in step.prepared:
        spec, view = step.world.speculating(number), step.requests[number]
        last = step.world.must_be_evicted(number) if spec.steps > 1 else 0
        for position in range(view.shared, last):
            loc = view.row[position]
            if step.mapping[loc]:
                what = f"token {position} of request {number} (full loc {loc}) has SWA slot {step.mapping[loc]}"
                what += f" and {spec.committed} tokens are committed"
                return step.diverges("leak", what, "window eviction skipped this token")
    return None


@check("reads", order=160)
def check_reads(step: SpecStep) -> Divergence | None:
    """Reads: within a step, the draft and the verification read the KV of the tokens before theirs, on their own
    branch."""
    for seen in step.seen:
        for at, (key, tag) in enumerate(zip(seen.rows.keys, seen.tags, strict=True)):
            if not holds(seen.rows, at, tag):
                what = f"{seen.reader} read {step.world.name(key)} at layer {seen.layer}"
                if key == tag:
                    what += " with another value"
                return step.diverges("wrong-content", f"{what}, expected {step.world.name(tag)}")
    return None


@check("drafts", order=170)
def check_drafts(step: SpecStep) -> Divergence | None:
    """Drafts: the draft's pool holds the draft's KV of every final token, at the locs of the target's.

    Checked for all tokens of running requests in full layers and their window in SWA layers, and for every node. With a
    host tier, for the requests' own tokens alone: the draft's rows do not go to the host and back.
    """
    return _drafts_of_requests(step) or _drafts_of_nodes(step)


def _drafts_of_requests(step: SpecStep) -> Divergence | None:
    world = step.world
    for number, view in step.requests.items():
        request = world.speculating(number)
        for layer, swa in enumerate(world.swa_layers):
            start = request.window(world.config.window)[0] if swa else 0
            start = max(start, step.undrafted(number, view))
            stop = max(start, request.drafted)
            tags = world.draft_tags(number, start, stop, layer)
            found = _wrong_draft(step, layer, view.row[start:stop], tags, f"token {{}} of request {number}", start)
            if found is not None:
                return found
    return None


def _drafts_of_nodes(step: SpecStep) -> Divergence | None:
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
            found = _wrong_draft(step, layer, locs, tags, f"token {{}} of node {node.node}", len(item.before))
            if found is not None:
                return found
    return None


def _wrong_draft(
    step: SpecStep, layer: int, locs: Sequence[int], tags: list[int], owner: str, start: int
) -> Divergence | None:
    rows, world = step.draft_contents[layer], step.world
    slots = [step.mapping[loc] for loc in locs] if world.swa_layers[layer] else locs
    for at, (slot, tag) in enumerate(zip(slots, tags, strict=True)):
        if not holds(rows, slot, tag):
            what = f"slot {slot} of layer {layer}, {owner.format(start + at)}, holds {world.name(rows.keys[slot])}"
            what = f"{what} in the draft's pool, expected {world.name(tag)}"
            return step.diverges("wrong-content", what, rows=[LocRow(locs[at], slot, None)])
    return None
