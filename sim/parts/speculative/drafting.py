"""The draft model's forwards: over tokens that are final, and over the branches of a tree."""

from __future__ import annotations

from ...targets.speculative import Branches
from .forwards import draft_forward
from .step import Seen, SpecStep

__all__ = ["extend_draft", "run_draft"]


def extend_draft(step: SpecStep, numbers: list[int]) -> None:
    """The draft computes KV of all tokens that it can compute by now, and reads what they attend to."""
    world, engine = step.world, step.engine
    spans = [(it, world.speculating(it).drafted, world.draftable(it)) for it in numbers]
    spans = [span for span in spans if span[1] < span[2]]
    if not spans:
        return
    rows = engine.raw_requests()
    locs = [loc for number, start, stop in spans for loc in rows[number].row[start:stop]]
    draft_forward(step, locs, [prefix for span in spans for prefix in world.draft_prefixes(*span)])
    for layer in range(len(world.config.layers)):
        for number, start, stop in spans:
            first = max(0, start + 1 + world.config.bigram - world.config.window) if world.swa_layers[layer] else 0
            first = max(first, step.undrafted(number, rows[number]))
            found = engine.read_draft(list(rows[number].row[first:stop]), layer)
            wanted = world.draft_tags(number, first, stop, layer)
            step.seen.append(Seen(f"the draft's extend of request {number}", layer, found, wanted))
    for number, _, stop in spans:
        world.speculating(number).drafted = stop


def run_draft(step: SpecStep, numbers: list[int]) -> None:
    """The draft proposes its tree, one forward a depth; each token reads those before it."""
    engine = step.engine
    step.branches = dict(zip(numbers, engine.draft_branches(numbers), strict=True))
    for number in numbers:
        _read_copied(step, number, step.branches[number])
    for depth in range(1, step.world.config.spec_steps + 1):
        _forward(step, step.branches, depth)


def _forward(step: SpecStep, branches: dict[int, Branches], depth: int) -> None:
    """One forward: the tokens of one depth of all requests."""
    world, engine = step.world, step.engine
    locs: list[int] = []
    prefixes: list[int] = []
    above: list[tuple[int, list[int], list[int]]] = []
    for number, own in branches.items():
        tree = world.speculating(number).tree
        assert tree is not None
        nodes, known = tree.level(depth), world.node_prefixes(number)
        locs += [own.slots[branch][depth - 1] for branch in range(len(nodes))]
        prefixes += [known[node] for node in nodes]
        for node in nodes:
            path = tree.path(node)[1:]
            places = [own.slots[tree.level(at).index(it)][at - 1] for at, it in enumerate(path, 1)]
            above.append((number, places, [known[it] for it in path]))
    if not locs:
        return
    draft_forward(step, locs, prefixes)
    for layer in range(len(world.config.layers)):
        for number, places, wanted in above:
            tags = [world.tags.tag(prefix, layer) for prefix in wanted]
            found = engine.read_draft(places, layer)
            step.seen.append(Seen(f"the draft of request {number} at depth {depth}", layer, found, tags))


def _read_copied(step: SpecStep, number: int, branches: Branches) -> None:
    """Each branch finds the last page's tokens where it reads them."""
    world = step.world
    request, config = world.speculating(number), world.config
    undrafted = step.undrafted(number, step.engine.raw_requests()[number])
    for branch, locs in enumerate(branches.copied):
        for layer, swa in enumerate(world.swa_layers):
            start = request.computed - len(locs)
            first = max(start, request.computed + 1 - config.window) if swa else start
            first = min(max(first, undrafted), request.computed)
            found = step.engine.read_draft(list(locs[first - start :]), layer)
            tags = world.draft_tags(number, first, request.computed, layer)
            step.seen.append(Seen(f"branch {branch} of the draft of request {number}", layer, found, tags))
