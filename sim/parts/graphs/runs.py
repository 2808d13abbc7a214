"""Forwards through captured graphs, and what each of them wrote."""

from __future__ import annotations

from itertools import chain
from typing import cast

from ....models.graphs import Draft, Run
from ...targets.engine import GraphTarget
from ..engine.forwards import Forward, read_back, run_layers, running
from ..engine.step import EngineStep, Written

__all__ = ["SPECULATIVE", "attend", "drafted", "graph_target", "note_run", "note_verified", "run_graph", "through"]

SPECULATIVE = "speculative"


def graph_target(step: EngineStep) -> GraphTarget:
    """The step's target, which captures graphs."""
    return cast(GraphTarget, step.target)


def through(runner: str) -> Forward:
    """The forward through a runner's graphs, or without one where none holds the batch."""

    def forward(step: EngineStep, spans: list[Written]) -> None:
        found = step.world.graphs.fitting(runner, sum(span.stop - span.start for span in spans))
        if found is None:
            step.world.saw("no_graph_fits")
            run_layers(step, spans)
            return
        run_graph(step, runner, *found, spans)
        attend(step, spans)

    return forward


def run_graph(step: EngineStep, runner: str, size: int, captured: int, spans: list[Written]) -> Run:
    """Run a batch through the graph of `size` tokens that event `captured` made."""
    target = graph_target(step)
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
    target, world = graph_target(step), step.world
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


def attend(step: EngineStep, spans: list[Written]) -> None:
    """Attention reads, layer by layer, what the batch's tokens attend to."""
    for layer in range(len(step.world.config.layers)):
        read_back(step, spans, layer)
    step.written = spans


def drafted(step: EngineStep, numbers: tuple[int, ...]) -> dict[int, Draft]:
    """Those of the requests whose draft is still the next thing to verify, all with the same proposal."""
    drafts: dict[int, Draft] = {}
    for number in running(step, numbers, 0):
        draft = step.world.graphs.drafts.get(number)
        if draft is not None and draft.after == step.world.requests[number].computed:
            drafts[number] = draft
    proposals = [draft.tokens for draft in drafts.values()]
    return {number: draft for number, draft in drafts.items() if draft.tokens == proposals[0]}


def note_verified(step: EngineStep, drafts: list[Draft], run: Run, kept: int) -> None:
    saw = step.world.saw
    drafted = zip(*((draft.locs, draft.swa) for draft in drafts), strict=True)
    if tuple(tuple(chain.from_iterable(slots)) for slots in drafted) != (run.locs, run.swa):
        saw("verified_elsewhere")
    if step.world.last("host_hit") > min(draft.event for draft in drafts):
        saw("load_back_before_verify")
    saw("accepted_all" if kept == len(drafts[0].tokens) else "accepted_some" if kept else "accepted_none")
