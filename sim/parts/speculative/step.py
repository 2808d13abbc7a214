"""A step of speculative decode: who may begin it, its slots, both models' forwards, and what a check is given.

Forwards go through a captured graph where one holds the batch, layer by layer elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, cast

from ....models.draft_tree import Tree
from ....models.radix import Placed, place
from ....models.speculative import SpecRequest, SpecWorld, key_numbers
from ...targets.base import Rows
from ...targets.engine import RequestView
from ...targets.spec_graphs import SpecGraphTarget
from ...targets.speculative import Branches, SpeculativeTarget
from ..engine.forwards import MAX_TOKENS, judges, refuse
from ..engine.step import EngineStep, Written
from ..graphs.events import note_run

__all__ = [
    "Seen", "SpecStep", "extend_draft", "may_begin", "path_to", "prepare", "run_draft", "speculating", "tree_of",
    "verify",
]  # fmt: skip


class Seen(NamedTuple):
    """Rows that attention read within a step, before anything was accepted.

    Attributes:
        reader: who read them, for people.
        layer: at which layer.
        rows: what was read.
        tags: what had to be there.
    """

    reader: str
    layer: int
    rows: Rows
    tags: Sequence[int]


@dataclass
class SpecStep(EngineStep):
    """One event after a speculative target has executed it.

    Attributes:
        seen: what drafts and verifications read.
        prepared: requests that the event prepared.
        branches: request -> where the draft put its tokens.
        accepted: request -> nodes that the event accepted.
    """

    world: SpecWorld
    seen: list[Seen] = field(default_factory=list)
    prepared: list[int] = field(default_factory=list)
    branches: dict[int, Branches] = field(default_factory=dict)
    accepted: dict[int, list[int]] = field(default_factory=dict)

    @property
    def engine(self) -> SpeculativeTarget:
        """The target."""
        return cast(SpeculativeTarget, self.target)

    @property
    def rules(self) -> object:
        """See `staleloc.sim.targets.speculative.SpecRules`."""
        return self.world.rules

    @cached_property
    def keyed(self) -> list[Placed]:
        """The nodes with their places, in keys."""
        bigram = self.world.config.bigram
        return place([replace(it, tokens=tuple(key_numbers(it.tokens, it.after, bigram))) for it in self.tree])

    def path(self, number: int, count: int) -> list[int]:
        """The first `count` keys of a request."""
        return self.world.keys(number, count)

    def extended(self, numbers: list[int]) -> None:
        """The draft computes what the target has computed of these requests' prompts."""
        extend_draft(self, numbers)

    def undrafted(self, number: int, view: RequestView) -> int:
        """How many of a request's first tokens the draft may have no KV of: with a host tier those of the tree, for
        what comes back from the host comes without the draft's rows."""
        return view.shared if self.world.config.host_full_size else 0

    @property
    def draft_in_tree(self) -> bool:
        """Whether the draft has KV of all that the tree holds on the device."""
        return not self.world.config.host_full_size

    @cached_property
    def draft_contents(self) -> list[Rows]:
        """Raw rows of every layer of the draft's pool."""
        return [self.engine.raw_draft_contents(layer) for layer in range(len(self.world.config.layers))]


_RUNNER = "speculative"


def _draft_forward(step: SpecStep, locs: list[int], prefixes: Sequence[int]) -> None:
    """The draft writes the KV of these prefixes at these full locs, in all layers."""
    tags = _tags(step, prefixes)
    found = step.world.graphs.fitting(_RUNNER, len(locs))
    if found is not None:
        cast(SpecGraphTarget, step.target).replay_draft(locs, tags)
        note_run(step, "draft", *found, locs)
        return
    for layer, row in enumerate(tags):
        step.engine.write_draft(locs, layer, row)


def _target_forward(step: SpecStep, spans: list[Written], prefixes: Sequence[int]) -> None:
    """The target writes the KV of these prefixes at the locs of these spans, in all layers."""
    tags = _tags(step, prefixes)
    found = step.world.graphs.fitting(_RUNNER, len(prefixes))
    if found is not None:
        rows = step.target.raw_requests()
        locs = [loc for number, start, stop in spans for loc in rows[number].row[start:stop]]
        cast(SpecGraphTarget, step.target).replay(_RUNNER, list(spans), tags)
        note_run(step, _RUNNER, *found, locs)
        return
    for layer, row in enumerate(tags):
        step.target.write(list(spans), layer, row)


def _tags(step: SpecStep, prefixes: Sequence[int]) -> list[list[int]]:
    """For each layer a tag a token."""
    return [[step.world.tags.tag(it, layer) for it in prefixes] for layer in range(len(step.world.config.layers))]


def extend_draft(step: SpecStep, numbers: list[int]) -> None:
    """The draft computes KV of all tokens that it can compute by now, and reads what they attend to."""
    world, engine = step.world, step.engine
    spans = [(it, world.speculating(it).drafted, world.draftable(it)) for it in numbers]
    spans = [span for span in spans if span[1] < span[2]]
    if not spans:
        return
    rows = engine.raw_requests()
    locs = [loc for number, start, stop in spans for loc in rows[number].row[start:stop]]
    _draft_forward(step, locs, [prefix for span in spans for prefix in world.draft_prefixes(*span)])
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
        _draft_depth(step, step.branches, depth)


def _draft_depth(step: SpecStep, branches: dict[int, Branches], depth: int) -> None:
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
    _draft_forward(step, locs, prefixes)
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


def speculating(step: SpecStep, numbers: Sequence[int], fit: Callable[[SpecRequest], bool]) -> list[int]:
    """Those of the requests that are running and fit, each once."""
    running = [number for number in dict.fromkeys(numbers) if step.world.decodes(number)]
    return [number for number in running if fit(step.world.speculating(number))]


def may_begin(step: SpecStep) -> Callable[[SpecRequest], bool]:
    """Whether a request may begin a step: the last one is verified, and the one before that is committed."""
    nodes = step.world.config.spec_draft_tokens

    def fits(request: SpecRequest) -> bool:
        under_way = request.prepared or request.tree is not None or len(request.uncommitted) > 1
        return not under_way and len(request.tokens) + nodes <= MAX_TOKENS

    return fits


def prepare(step: SpecStep, numbers: list[int]) -> bool:
    """Slots for a step; False if there were none."""
    world = step.world
    judged = judges(step)
    prepared = step.engine.prepare_decode(numbers)
    world.merged()
    if not prepared:
        goal = world.goal if world.config.spec_ahead else world.draft_end
        refuse(step, [Written(it, world.speculating(it).allocated, goal(it)) for it in numbers], judged)
        return False
    for number in numbers:
        world.prepare(number)
    step.prepared = numbers
    return True


def tree_of(request: SpecRequest) -> Tree:
    """What was drafted for a request."""
    assert request.tree is not None
    return request.tree


def path_to(request: SpecRequest, node: int) -> list[int]:
    """The path of the draft that ends at a node; at the last one if there is no such node."""
    tree = tree_of(request)
    return tree.path(min(node, len(tree.tokens) - 1))


def verify(step: SpecStep, spans: list[Written]) -> None:
    """The target computes all nodes, and attention reads them and what is before them."""
    world, target = step.world, step.target
    nodes = {span.request: world.node_prefixes(span.request) for span in spans}
    _target_forward(step, spans, [prefix for span in spans for prefix in nodes[span.request]])
    for layer in range(len(world.config.layers)):
        for number, start, stop in spans:
            first, _ = world.attended(number, start, layer)
            rows = target.read(number, first, stop, layer)
            tags = [world.tags.tag(it, layer) for it in nodes[number]]
            wanted = [*world.row_tags(number, first, start, layer), *tags]
            step.seen.append(Seen(f"the verification of request {number}", layer, rows, wanted))
