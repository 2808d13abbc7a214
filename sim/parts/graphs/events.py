"""What an engine with captured graphs does, beside the engine level's events.

As there, an event that does not apply is skipped. What changes the mapping between a capture and a replay is
the engine level's: allocations, evictions, load-backs, requests that leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import cast

from ....models.graphs import Draft as Drafted
from ....models.graphs import Run
from ...core.event import Event, events_in
from ...targets.engine import DECODES, MAX_GRAPH_TOKENS, PREFILLS, RUNNERS, GraphTarget
from ..engine.events import EngineEvent, fewer, fewer_requests, fewer_tokens
from ..engine.forwards import Forward, chunk, decode, judges, read_back, refuse, run_layers, running
from ..engine.step import EngineStep, Written

__all__ = ["GRAPH_EVENTS", "Capture", "Draft", "Replay", "ReplayChunk", "Verify", "note_run"]

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


def drafted(step: EngineStep, numbers: tuple[int, ...]) -> dict[int, Drafted]:
    """Those of the requests whose draft is still the next thing to verify, all with the same proposal."""
    drafts: dict[int, Drafted] = {}
    for number in running(step, numbers, 0):
        draft = step.world.graphs.drafts.get(number)
        if draft is not None and draft.after == step.world.requests[number].computed:
            drafts[number] = draft
    proposals = [draft.tokens for draft in drafts.values()]
    return {number: draft for number, draft in drafts.items() if draft.tokens == proposals[0]}


def note_verified(step: EngineStep, drafts: list[Drafted], run: Run, kept: int) -> None:
    saw = step.world.saw
    drafted = zip(*((draft.locs, draft.swa) for draft in drafts), strict=True)
    if tuple(tuple(chain.from_iterable(slots)) for slots in drafted) != (run.locs, run.swa):
        saw("verified_elsewhere")
    if step.world.last("host_hit") > min(draft.event for draft in drafts):
        saw("load_back_before_verify")
    saw("accepted_all" if kept == len(drafts[0].tokens) else "accepted_some" if kept else "accepted_none")


_WORDS = MappingProxyType({"runner": RUNNERS})


@dataclass(frozen=True)
class Capture(EngineEvent):
    """A runner captures a forward of `size` tokens: warm-up runs on the dummy slot, then the capture itself."""

    kind = "capture"
    words = _WORDS
    runner: str
    size: int

    def play(self, step: EngineStep) -> bool:
        if self.runner not in RUNNERS or not 1 <= self.size <= MAX_GRAPH_TOKENS:
            return False
        target, world = graph_target(step), step.world
        if world.graphs.has(self.runner, self.size):
            world.saw("recaptured")
        target.capture(self.runner, self.size)
        step.runs.append((world.graphs.capture(step.index, self.runner, self.size), target.raw_run().locs))
        if step.requests:
            world.saw("captured_late")
        return True

    def simpler(self) -> Iterator[Event]:
        yield from fewer(self, "size", 1, self.size // 2, self.size - 1)


@dataclass(frozen=True)
class Replay(EngineEvent):
    """A decode step of the running requests among these, each appending `token`, through a captured graph.

    Where none holds the batch, the step runs without.
    """

    kind = "replay"
    words = _WORDS
    runner: str
    requests: tuple[int, ...]
    token: int

    def play(self, step: EngineStep) -> bool:
        return self.runner in DECODES and decode(step, self.requests, self.token, through(self.runner))

    def simpler(self) -> Iterator[Event]:
        yield from fewer_requests(self)
        yield from fewer(self, "token", 1)


@dataclass(frozen=True)
class ReplayChunk(EngineEvent):
    """The next `count` tokens of a prompt, through a captured graph, or without where none holds them."""

    kind = "replay_chunk"
    words = _WORDS
    runner: str
    request: int
    count: int

    def play(self, step: EngineStep) -> bool:
        return self.runner in PREFILLS and chunk(step, self.request, self.count, through(self.runner))

    def simpler(self) -> Iterator[Event]:
        yield from fewer(self, "count", 1, self.count // 2)


@dataclass(frozen=True)
class Draft(EngineEvent):
    """The draft computes these tokens for each of the requests, through its graph; its slots are taken back at once."""

    kind = "draft"
    requests: tuple[int, ...]
    tokens: tuple[int, ...]

    def play(self, step: EngineStep) -> bool:
        world, target, count = step.world, graph_target(step), len(self.tokens)
        ready = running(step, self.requests, count)
        found = world.graphs.fitting(SPECULATIVE, count * len(ready))
        if not ready or not count or found is None:
            return False
        step.effect = self.changed(requests=tuple(ready))
        spans = [Written(number, (start := world.requests[number].computed), start + count) for number in ready]
        judged = judges(step)
        locs = target.begin_draft(ready, count)
        if locs is None:
            refuse(step, spans, judged)
            return True
        prefixes = [
            prefix
            for number in ready
            for prefix in world.tags.prefixes(self.tokens, world.requests[number].prefixes[-1])
        ]
        target.draft(
            [[world.tags.tag(prefix, layer) for prefix in prefixes] for layer in range(len(world.config.layers))]
        )
        run = note_run(step, "draft", *found, locs)
        target.end_draft()
        for index, span in enumerate(spans):
            part = slice(index * count, (index + 1) * count)
            draft = Drafted(step.index, self.tokens, span.start, run.locs[part], run.swa[part])
            world.graphs.drafts[span.request] = draft
        return True

    def simpler(self) -> Iterator[Event]:
        yield from fewer_tokens(self)


@dataclass(frozen=True)
class Verify(EngineEvent):
    """The target computes what was drafted for these requests, through its graph, and accepts the first `accepted`
    tokens of it; the others are taken back."""

    kind = "verify"
    requests: tuple[int, ...]
    accepted: int

    def play(self, step: EngineStep) -> bool:
        world, target = step.world, graph_target(step)
        drafts = drafted(step, self.requests)
        if not drafts:
            return False
        ready, tokens = list(drafts), next(iter(drafts.values())).tokens
        count = len(tokens)
        found = world.graphs.fitting(SPECULATIVE, count * len(ready))
        if found is None:
            return False
        kept = min(self.accepted, count)
        step.effect = self.changed(requests=tuple(ready), accepted=kept)
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
        ran = run_graph(step, SPECULATIVE, *found, spans)
        for number in ready if kept < count else ():
            target.reject(number, count - kept)
            world.reject(number, count - kept)
        attend(step, [Written(number, start, start + kept) for number, start, _ in spans] if kept else [])
        note_verified(step, list(drafts.values()), ran, kept)
        return True

    def simpler(self) -> Iterator[Event]:
        yield from fewer_requests(self)
        if self.accepted:
            yield self.changed(accepted=0)


GRAPH_EVENTS = events_in(__name__, EngineEvent)
"""Every event type of this feature."""
