"""Tapes of speculative decode with captured graphs: drafts, verifications and chunks go through them."""

from __future__ import annotations

from ....models.config import Config
from ...core.choices import Choices
from ...core.event import Event
from ...targets.engine import MAX_GRAPH_TOKENS, PREFILLS
from ..engine import events as ee
from ..graphs import events as ge
from .generate import SpecAuthor

__all__ = ["SpecGraphAuthor"]


class SpecGraphAuthor(SpecAuthor):
    """Writes what any author of speculative decode does, and captures graphs for it, most of them at the start.

    One size or two of the speculative runner's: a draft's forward is smaller than a verification, so it is padded.
    """

    def __init__(self, choices: Choices, config: Config, events: frozenset[str]) -> None:
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
