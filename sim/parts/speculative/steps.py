"""A step of speculative decode: who may begin it, its slots, and the verification."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....models.draft_tree import Tree
from ....models.speculative import SpecRequest
from ..engine.forwards import MAX_TOKENS, judges, refuse
from ..engine.step import Written
from .forwards import target_forward
from .step import Seen, SpecStep

__all__ = ["may_begin", "path_to", "prepare", "speculating", "tree_of", "verify"]


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
    target_forward(step, spans, [prefix for span in spans for prefix in nodes[span.request]])
    for layer in range(len(world.config.layers)):
        for number, start, stop in spans:
            first, _ = world.attended(number, start, layer)
            rows = target.read(number, first, stop, layer)
            tags = [world.tags.tag(it, layer) for it in nodes[number]]
            wanted = [*world.row_tags(number, first, start, layer), *tags]
            step.seen.append(Seen(f"the verification of request {number}", layer, rows, wanted))
