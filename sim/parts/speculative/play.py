"""From an event of speculative decode to the target's calls: the scheduler's part, and the two models' forwards.

As at the engine level, a function returns False if the event does not apply now; it is then skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....models.draft_tree import Tree
from ....models.requests import Phase
from ....models.speculative import SpecRequest
from ...core.event import Event
from ...targets.graphs import PREFILLS
from ..engine import events as ee
from ..engine.play import MAX_TOKENS, PLAY, Forward, chunk, judges, refuse, run_layers
from ..engine.step import EngineStep, Written
from ..graphs import events as ge
from ..graphs.play import GRAPH_PLAY, through
from . import events as se
from .drafting import extend_draft, run_draft
from .forwards import target_forward
from .step import Seen, SpecStep

__all__ = ["SPEC_PLAY"]


def _prefill(step: SpecStep, event: ee.Prefill) -> bool:
    return chunk(step, event.request, event.count, _extending(run_layers))


def _replay_chunk(step: SpecStep, event: ge.ReplayChunk) -> bool:
    return event.runner in PREFILLS and chunk(step, event.request, event.count, _extending(through(event.runner)))


def _extending(forward: Forward) -> Forward:
    """A forward of the target, and the draft's after it."""

    def both(step: EngineStep, spans: list[Written]) -> None:
        forward(step, spans)
        assert isinstance(step, SpecStep)
        extend_draft(step, [span.request for span in spans])

    return both


def _running(step: SpecStep, numbers: Sequence[int], fit: Callable[[SpecRequest], bool]) -> list[int]:
    """Those of the requests that are running and fit, each once."""
    known = step.world.requests
    running = [it for it in dict.fromkeys(numbers) if it in known and known[it].phase is Phase.RUNNING]
    return [number for number in running if fit(step.world.speculating(number))]


def _may_begin(step: SpecStep) -> Callable[[SpecRequest], bool]:
    """Whether a request may begin a step: the last one is verified, and the one before that is committed."""
    nodes = step.world.config.spec_draft_tokens

    def fits(request: SpecRequest) -> bool:
        under_way = request.prepared or request.tree is not None or len(request.uncommitted) > 1
        return not under_way and len(request.tokens) + nodes <= MAX_TOKENS

    return fits


def _prepare(step: SpecStep, numbers: list[int]) -> bool:
    """Slots for a step; False if there were none."""
    world = step.world
    judged = judges(step)
    if not step.engine.prepare_decode(numbers):
        goal = world.goal if world.config.spec_ahead else world.draft_end
        refuse(step, [Written(it, world.speculating(it).allocated, goal(it)) for it in numbers], judged)
        return False
    for number in numbers:
        world.prepare(number)
    step.prepared = numbers
    return True


def _prepare_decode(step: SpecStep, event: se.PrepareDecode) -> bool:
    if not step.world.config.spec_ahead:
        return False
    ready = _running(step, event.requests, _may_begin(step))
    if not ready:
        return False
    step.effect = event.changed(requests=tuple(ready))
    _prepare(step, ready)
    return True


def _draft_tree(step: SpecStep, event: se.DraftTree) -> bool:
    world, config = step.world, step.world.config
    v1 = not config.spec_ahead
    ready = _running(step, event.requests, _may_begin(step) if v1 else lambda request: request.prepared)
    if not ready or not event.tokens:
        return False
    tree = Tree.of(event.tokens, event.parents, config.spec_steps, config.spec_topk, config.spec_draft_tokens)
    step.effect = event.changed(requests=tuple(ready), tokens=tree.tokens, parents=tree.parents[1:])
    if v1 and not _prepare(step, ready):
        return True
    for number in ready:
        world.draft(number, tree)
    extend_draft(step, ready)
    run_draft(step, ready)
    step.engine.drop_draft(ready)
    return True


def _target_verify(step: SpecStep, event: se.TargetVerify) -> bool:
    world = step.world
    ready = _running(step, event.requests, lambda request: request.tree is not None)
    if not ready or not event.accepted:
        return False
    wanted = {number: event.accepted[at % len(event.accepted)] for at, number in enumerate(event.requests)}
    paths = {number: _path(world.speculating(number), wanted[number]) for number in ready}
    step.effect = event.changed(requests=tuple(ready), accepted=tuple(path[-1] for path in paths.values()))
    nodes = world.config.spec_draft_tokens
    spans = [Written(it, (start := world.speculating(it).computed), start + nodes) for it in ready]
    judged = judges(step)
    if not step.engine.begin_verify(ready):
        refuse(step, spans, judged)
        return True
    _verify(step, spans)
    tokens = [_tree(world.speculating(number)).along(path) for number, path in paths.items()]
    step.engine.accept(ready, list(paths.values()), tokens)
    for number, path in paths.items():
        world.accept(number, path)
    step.accepted = paths
    step.written = [Written(span.request, span.start, span.start + len(paths[span.request])) for span in spans]
    extend_draft(step, ready)
    return True


def _tree(request: SpecRequest) -> Tree:
    assert request.tree is not None
    return request.tree


def _path(request: SpecRequest, node: int) -> list[int]:
    tree = _tree(request)
    return tree.path(min(node, len(tree.tokens) - 1))


def _verify(step: SpecStep, spans: list[Written]) -> None:
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


def _commit(step: SpecStep, event: se.Commit) -> bool:
    ready = _running(step, event.requests, lambda request: bool(request.uncommitted))
    if not ready:
        return False
    step.effect = event.changed(requests=tuple(ready))
    step.engine.commit(ready)
    for number in ready:
        step.world.commit(number)
    return True


def _finish(step: SpecStep, event: ee.Finish) -> bool:
    """Under V2 a request finishes when a result was processed: the step after that one has run by then, or was not
    prepared."""
    return step.world.may_finish(event.request) and PLAY[ee.Finish](step, event)


def _abort(step: SpecStep, event: ee.Abort) -> bool:
    """It is aborted or retracted at no other time, or before the next step is prepared."""
    return step.world.may_leave(event.request) and PLAY[ee.Abort](step, event)


SPEC_PLAY: dict[type[Event], Callable[[SpecStep, Any], bool]] = {
    **PLAY,
    ee.Prefill: _prefill,
    ge.Capture: GRAPH_PLAY[ge.Capture],
    ge.ReplayChunk: _replay_chunk,
    ee.Finish: _finish,
    ee.Abort: _abort,
    se.PrepareDecode: _prepare_decode,
    se.DraftTree: _draft_tree,
    se.TargetVerify: _target_verify,
    se.Commit: _commit,
}
"""Event type -> play it, if it applies."""
