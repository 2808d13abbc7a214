"""What an engine with captured graphs does, beside the engine level's events.

As there, an event that does not apply is skipped. What changes the mapping between a capture and a replay is
the engine level's: allocations, evictions, load-backs, requests that leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType

from ....models.graphs import Draft as Drafted
from ...core.event import Event
from ...targets.engine import DECODES, MAX_GRAPH_TOKENS, PREFILLS, RUNNERS
from ..engine.event import EngineEvent, fewer, fewer_requests, fewer_tokens
from ..engine.forwards import chunk, decode, judges, refuse, running
from ..engine.step import EngineStep, Written
from .runs import SPECULATIVE, attend, drafted, graph_target, note_run, note_verified, run_graph, through

__all__ = ["GRAPH_EVENTS", "Capture", "Draft", "Replay", "ReplayChunk", "Verify"]

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


GRAPH_EVENTS: tuple[type[EngineEvent], ...] = (Capture, Replay, ReplayChunk, Draft, Verify)
"""Every event type of this feature."""
