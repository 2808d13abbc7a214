"""Plays the events of captured graphs, and records what each forward through a graph wrote."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, cast

from ....models.graphs import Draft, Run
from ...core.event import Event
from ...targets.graphs import DECODES, MAX_GRAPH_TOKENS, PREFILLS, RUNNERS, GraphTarget
from ..engine.play import Forward, chunk, decode, judges, read_back, refuse, run_layers, running
from ..engine.step import EngineStep, Written
from . import events as ge

__all__ = ["GRAPH_PLAY", "note_run", "through"]

_SPECULATIVE = "speculative"


def _target(step: EngineStep) -> GraphTarget:
    return cast(GraphTarget, step.target)


def _capture(step: EngineStep, event: ge.Capture) -> bool:
    if event.runner not in RUNNERS or not 1 <= event.size <= MAX_GRAPH_TOKENS:
        return False
    target, world = _target(step), step.world
    if world.graphs.has(event.runner, event.size):
        world.saw("recaptured")
    target.capture(event.runner, event.size)
    step.runs.append((world.graphs.capture(step.index, event.runner, event.size), target.raw_run().locs))
    if step.requests:
        world.saw("captured_late")
    return True


def _replay(step: EngineStep, event: ge.Replay) -> bool:
    return event.runner in DECODES and decode(step, event.requests, event.token, through(event.runner))


def _replay_chunk(step: EngineStep, event: ge.ReplayChunk) -> bool:
    return event.runner in PREFILLS and chunk(step, event.request, event.count, through(event.runner))


def through(runner: str) -> Forward:
    """The forward through a runner's graphs, or without one where none holds the batch."""

    def forward(step: EngineStep, spans: list[Written]) -> None:
        found = step.world.graphs.fitting(runner, sum(span.stop - span.start for span in spans))
        if found is None:
            step.world.saw("no_graph_fits")
            run_layers(step, spans)
            return
        _run(step, runner, *found, spans)
        _attend(step, spans)

    return forward


def _run(step: EngineStep, runner: str, size: int, captured: int, spans: list[Written]) -> Run:
    """Run a batch through the graph of `size` tokens that event `captured` made."""
    target = _target(step)
    if target.pending():
        step.world.saw("forward_over_flight")
    rows = {number: view.row for number, view in target.raw_requests().items()}
    locs = [loc for number, start, stop in spans for loc in rows[number][start:stop]]
    layers = range(len(step.world.config.layers))
    tags = [[tag for span in spans for tag in step.world.row_tags(*span, layer)] for layer in layers]
    target.replay(runner, [(number, start, stop) for number, start, stop in spans], tags)
    return note_run(step, runner, size, captured, locs)


def note_run(step: EngineStep, runner: str, size: int, captured: int, locs: list[int]) -> Run:
    """Keep what the run wrote beside what it had to write."""
    target, world = _target(step), step.world
    mapping = target.raw_mapping()
    run = Run(step.index, runner, captured, tuple(locs), tuple(mapping[loc] for loc in locs))
    step.runs.append((run, target.raw_run().locs))
    if len(locs) < size:
        world.saw("padded")
        if world.graphs.longest(runner, captured) > len(locs):
            world.saw("padded_after_larger")
    if world.graphs.ran(run):
        world.saw("remapped_between_runs")
    world.saw(f"ran_{runner}")
    return run


def _attend(step: EngineStep, spans: list[Written]) -> None:
    """Attention reads, layer by layer, what the batch's tokens attend to."""
    for layer in range(len(step.world.config.layers)):
        read_back(step, spans, layer)
    step.written = spans


def _draft(step: EngineStep, event: ge.Draft) -> bool:
    world, target, count = step.world, _target(step), len(event.tokens)
    ready = running(step, event.requests, count)
    found = world.graphs.fitting(_SPECULATIVE, count * len(ready))
    if not ready or not count or found is None:
        return False
    step.effect = event.changed(requests=tuple(ready))
    spans = [Written(number, (start := world.requests[number].computed), start + count) for number in ready]
    judged = judges(step)
    locs = target.begin_draft(ready, count)
    if locs is None:
        refuse(step, spans, judged)
        return True
    prefixes = [
        prefix for number in ready for prefix in world.tags.prefixes(event.tokens, world.requests[number].prefixes[-1])
    ]
    target.draft([[world.tags.tag(prefix, layer) for prefix in prefixes] for layer in range(len(world.config.layers))])
    run = note_run(step, "draft", *found, locs)
    target.end_draft()
    for index, span in enumerate(spans):
        part = slice(index * count, (index + 1) * count)
        draft = Draft(step.index, event.tokens, span.start, run.locs[part], run.swa[part])
        world.graphs.drafts[span.request] = draft
    return True


def _verify(step: EngineStep, event: ge.Verify) -> bool:
    world, target = step.world, _target(step)
    drafts = _drafted(step, event.requests)
    if not drafts:
        return False
    ready, tokens = list(drafts), next(iter(drafts.values())).tokens
    count = len(tokens)
    found = world.graphs.fitting(_SPECULATIVE, count * len(ready))
    if found is None:
        return False
    kept = min(event.accepted, count)
    step.effect = event.changed(requests=tuple(ready), accepted=kept)
    for number in ready:
        del world.graphs.drafts[number]
    spans = [Written(number, draft.after, draft.after + count) for number, draft in drafts.items()]
    judged = judges(step)
    if target.append(ready, tokens) is None:
        refuse(step, spans, judged)
        return True
    for number in ready:
        for token in tokens:
            world.append(number, token)
        world.computed(number, count)
    run = _run(step, _SPECULATIVE, *found, spans)
    for number in ready if kept < count else ():
        target.reject(number, count - kept)
        world.reject(number, count - kept)
    _attend(step, [Written(number, start, start + kept) for number, start, _ in spans] if kept else [])
    _notice(step, list(drafts.values()), run, kept)
    return True


def _drafted(step: EngineStep, numbers: tuple[int, ...]) -> dict[int, Draft]:
    """Those of the requests whose draft is still the next thing to verify, all with the same proposal."""
    drafts: dict[int, Draft] = {}
    for number in running(step, numbers, 0):
        draft = step.world.graphs.drafts.get(number)
        if draft is not None and draft.after == step.world.requests[number].computed:
            drafts[number] = draft
    proposals = [draft.tokens for draft in drafts.values()]
    return {number: draft for number, draft in drafts.items() if draft.tokens == proposals[0]}


def _notice(step: EngineStep, drafts: list[Draft], run: Run, kept: int) -> None:
    saw = step.world.saw
    drafted = zip(*((draft.locs, draft.swa) for draft in drafts), strict=True)
    if tuple(tuple(chain.from_iterable(slots)) for slots in drafted) != (run.locs, run.swa):
        saw("verified_elsewhere")
    if step.world.last("host_hit") > min(draft.event for draft in drafts):
        saw("load_back_before_verify")
    saw("accepted_all" if kept == len(drafts[0].tokens) else "accepted_some" if kept else "accepted_none")


GRAPH_PLAY: dict[type[Event], Callable[[EngineStep, Any], bool]] = {
    ge.Capture: _capture,
    ge.Replay: _replay,
    ge.ReplayChunk: _replay_chunk,
    ge.Draft: _draft,
    ge.Verify: _verify,
}
"""Event type -> play it, if it applies."""
