"""Tapes with captured graphs: forwards go through runners, which capture first, and again now and then."""

from __future__ import annotations

from collections import deque

from ....models.config import Config
from ...core.choices import Choices
from ...core.event import Event
from ...targets.engine import DECODES, MAX_GRAPH_TOKENS, PREFILLS
from ..author import Authors, Events, TapeAuthor
from ..engine import events as ee
from ..engine.generate import Author
from ..speculative.generate import SpecAuthor
from . import events as ge

__all__ = ["AUTHORS", "Capturing", "GraphAuthor", "SpecGraphAuthor"]

_BATCHES = (1, 2, 3, 4, 6)
"""Requests of a decode step that graphs are captured for."""


class GraphAuthor(Author):
    """Writes what any author does, and sends its forwards through graphs.

    A tape has few runners and few sizes, most of them captured at its start, as an engine does it. Between a
    draft and its verification come other requests' steps, those of a new one before all others.
    """

    def __init__(self, choices: Choices, config: Config, events: Events) -> None:
        super().__init__(choices, config, events)
        self.decodes = [runner for runner in DECODES if choices.chance(60)]
        self.prefills = [runner for runner in PREFILLS if choices.chance(50)]
        self.proposal = choices.pick((0, 1, 2, 3, 5))
        self.recaptures = choices.pick((0, 1, 5))
        self.through = choices.pick((50, 80, 100))
        self.drafted: tuple[int, ...] = ()
        self.ran = 1
        self.graphs = self.captures()
        self.planned.extend(it for it in self.graphs if choices.chance(90))

    def captures(self) -> list[Event]:
        """The captures of this tape: for each of its runners one to three sizes."""
        chunks = tuple(self.size * pages for pages in (1, 2, 4))
        drafts = tuple(max(1, self.proposal) * requests for requests in _BATCHES)
        sizes: dict[str, tuple[int, ...]] = dict.fromkeys(self.decodes, _BATCHES)
        for runner in self.prefills:
            sizes[runner] = (*sizes.get(runner, ()), *chunks)
        if self.proposal:
            sizes["speculative"] = drafts
        return [
            ge.Capture(runner, size)
            for runner, known in sizes.items()
            for size in dict.fromkeys(min(self.choices.pick(known), MAX_GRAPH_TOKENS) for _ in range(3))
        ]

    def event(self) -> Event:
        """The next event."""
        if not self.planned:
            if self.graphs and self.choices.chance(self.recaptures):
                return self.recapture()
            if self.drafted and self.choices.chance(50):
                requests, self.drafted = self.drafted, ()
                return ge.Verify(requests, self.choices.integer(0, self.proposal))
        return self.captured(super().event())

    def recapture(self) -> Event:
        """A graph of the tape again, or one as large as the batch that has just run."""
        again = self.choices.pick(self.graphs)
        assert isinstance(again, ge.Capture)
        return again if self.choices.chance(60) else ge.Capture(again.runner, self.ran)

    def captured(self, event: Event) -> Event:
        """The same step through a graph, if this tape has graphs for it."""
        if isinstance(event, ee.Decode):
            if self.proposal and not self.drafted and self.choices.chance(40):
                return self.draft(event.requests)
            if self.decodes and self.choices.chance(self.through):
                self.ran = len(event.requests)
                return ge.Replay(self.choices.pick(self.decodes), event.requests, event.token)
        if isinstance(event, ee.Prefill) and self.prefills and self.choices.chance(self.through):
            self.ran = min(event.count, MAX_GRAPH_TOKENS)
            return ge.ReplayChunk(self.choices.pick(self.prefills), event.request, event.count)
        return event

    def draft(self, requests: tuple[int, ...]) -> Event:
        """A draft; its verification is to come."""
        self.drafted = requests
        new = [number for number in range(self.requests) if number not in self.drafts]
        others = [number for number in self.drafts if number not in requests]
        if new and self.choices.chance(50):
            self.planned += [self.step(new[0]) for _ in range(self.choices.integer(2, 3))]
        elif others and self.choices.chance(50):
            self.planned += [self.step(self.choices.pick(others))]
        return ge.Draft(requests, tuple(self.token() for _ in range(self.proposal)))


class SpecGraphAuthor(SpecAuthor):
    """Writes what any author of speculative decode does, and captures graphs for it, most of them at the start.

    One size or two of the speculative runner's: a draft's forward is smaller than a verification, so it is padded.
    """

    def __init__(self, choices: Choices, config: Config, events: Events) -> None:
        super().__init__(choices, config, events)
        sizes = (config.spec_topk, self.nodes, 2 * self.nodes, self.requests * self.nodes)
        drawn = dict.fromkeys(min(choices.pick(sizes), MAX_GRAPH_TOKENS) for _ in range(2))
        self.graphs: list[Event] = [ge.Capture("speculative", size) for size in drawn]
        self.prefills = [runner for runner in PREFILLS if choices.chance(40)]
        self.graphs += [ge.Capture(runner, choices.pick((1, 2, 4)) * self.size) for runner in self.prefills]
        self.recaptures = choices.pick((0, 1, 5))
        self.planned.extend(it for it in self.graphs if choices.chance(90))

    def event(self) -> Event:
        """The next event."""
        if not self.planned and self.choices.chance(self.recaptures):
            return self.choices.pick(self.graphs)
        event = super().event()
        if isinstance(event, ee.Prefill) and self.prefills and self.choices.chance(70):
            return ge.ReplayChunk(self.choices.pick(self.prefills), event.request, event.count)
        return event


class Capturing(TapeAuthor):
    """Goes before any other author: most graphs are captured at the start, and some again now and then.

    Of the other author's steps decode steps go through a graph; those of speculative decode find the graphs of their
    runner by themselves.
    """

    def __init__(self, choices: Choices, config: Config, events: Events) -> None:
        super().__init__(choices, config, events)
        speculates = "spec" in config.features
        self.runners = [] if speculates else [runner for runner in DECODES if choices.chance(80)]
        sizes = tuple(config.spec_draft_tokens * requests for requests in (1, 2, 4)) if speculates else _BATCHES
        self.graphs = [
            ge.Capture(runner, min(choices.pick(sizes), MAX_GRAPH_TOKENS))
            for runner in (["speculative"] if speculates else self.runners)
            for _ in range(2)
        ]
        self.to_capture: deque[Event] = deque(it for it in self.graphs if choices.chance(90))
        self.recaptures = choices.pick((0, 1, 5))
        self.through = choices.pick((50, 80, 100))

    def event(self) -> Event:
        """The next event."""
        if self.to_capture:
            return self.to_capture.popleft()
        if self.graphs and self.choices.chance(self.recaptures):
            return self.choices.pick(self.graphs)
        event = super().event()
        if isinstance(event, ee.Decode) and self.runners and self.choices.chance(self.through):
            return ge.Replay(self.choices.pick(self.runners), event.requests, event.token)
        return event


def _with_graphs(author: type[TapeAuthor]) -> type[TapeAuthor]:
    """Writes what an author does, through graphs."""
    own: dict[type[TapeAuthor], type[TapeAuthor]] = {Author: GraphAuthor, SpecAuthor: SpecGraphAuthor}
    return own.get(author) or type(f"Capturing{author.__name__}", (Capturing, author), {})


AUTHORS: Authors = {"captured graphs": _with_graphs}
"""See `staleloc.sim.parts.author`."""
