"""Sends another author's forwards through captured graphs."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from ....models.config import Config
from ...core.choices import Choices
from ...core.event import Event
from ...targets.engine import DECODES, MAX_GRAPH_TOKENS
from ..engine import events as ee
from . import events as ge

__all__ = ["Capturing"]

_BATCHES = (1, 2, 3, 4, 6)
"""Requests of a decode step that graphs are captured for."""


class _Author(Protocol):
    def event(self) -> Event: ...


class Capturing:
    """Writes what another author does; most graphs are captured at the start, and some again now and then.

    Args:
        choices: what is drawn from.
        config: the cache.
        author: the other author. Of its steps decode steps go through a graph; those of speculative decode find the
            graphs of their runner by themselves.
    """

    def __init__(self, choices: Choices, config: Config, author: _Author) -> None:
        self.choices = choices
        self.author = author
        speculates = "spec" in config.features
        self.decodes = [] if speculates else [runner for runner in DECODES if choices.chance(80)]
        sizes = tuple(config.spec_draft_tokens * requests for requests in (1, 2, 4)) if speculates else _BATCHES
        self.graphs = [
            ge.Capture(runner, min(choices.pick(sizes), MAX_GRAPH_TOKENS))
            for runner in (["speculative"] if speculates else self.decodes)
            for _ in range(2)
        ]
        self.planned: deque[Event] = deque(it for it in self.graphs if choices.chance(90))
        self.recaptures = choices.pick((0, 1, 5))
        self.through = choices.pick((50, 80, 100))

    def event(self) -> Event:
        """The next event."""
        if self.planned:
            return self.planned.popleft()
        if self.graphs and self.choices.chance(self.recaptures):
            return self.choices.pick(self.graphs)
        event = self.author.event()
        if isinstance(event, ee.Decode) and self.decodes and self.choices.chance(self.through):
            return ge.Replay(self.choices.pick(self.decodes), event.requests, event.token)
        return event
