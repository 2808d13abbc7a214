"""Tapes of a decode node whose requests speculate."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from ....models.config import Config
from ...core.choices import Choices
from ...core.event import Event
from ...targets.base import Profile
from ..author import Authors, Events
from ..decode_node.events import Retract
from ..decode_node.generate import NodeAuthor
from ..engine import events as ee
from ..engine.shapes import draw_draft
from ..speculative.generate import Speculating, step_pages

__all__ = ["AUTHORS", "SpecNodeAuthor"]


class SpecNodeAuthor(Speculating, NodeAuthor):
    """Writes what any author of a decode node does, and a step of speculative decode for each decode step."""

    @classmethod
    def draw_config(cls, choices: Choices, profile: Profile) -> Config:
        """A decode node with a draft, and room for one to three steps more."""
        node = super().draw_config(choices, profile)
        size = node.page_size
        draft = draw_draft(choices, profile, size)
        keeps = node.decode_tree and draft["spec_version"] not in profile.spec_treeless
        config = replace(node, decode_tree=keeps, **draft)
        more = step_pages(config) * choices.pick((1, 1, 2, 3)) * size
        full = profile.pinned("full_size", node.full_size + more)
        return replace(config, full_size=full, swa_size=profile.pinned("swa_size", min(node.swa_size + more, full)))

    def __init__(self, choices: Choices, config: Config, events: Events) -> None:
        super().__init__(choices, config, events)
        self.others = [event for event in self.others if event in (*events, ee.Decode)] or [ee.Decode]
        self.draw_steps(config)
        self.coming: deque[Event] = deque()

    def event(self) -> Event:
        """The next event."""
        if self.coming:
            return self.coming.popleft()
        if self.under_way and self.choices.chance(self.pace):
            return self.under_way.popleft()
        event = super().event()
        if isinstance(event, ee.Finish | ee.Abort | ee.Results | Retract):
            return self.leave(event)
        if not isinstance(event, ee.Decode):
            return event
        if not self.under_way:
            self.begin(event.requests)
        return self.under_way.popleft()

    def leave(self, event: Event) -> Event:
        """A request leaves once the step that is under way has run."""
        self.coming = deque([*self.under_way, event])
        self.under_way.clear()
        return self.coming.popleft()


AUTHORS: Authors = {"speculative on a decode node": lambda before: SpecNodeAuthor}
"""See `staleloc.sim.parts.author`."""
