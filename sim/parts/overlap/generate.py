"""Tapes of a scheduler with two batches in flight: turns of its loop, requests that end or are aborted in between."""

from __future__ import annotations

from collections import deque

from ....models.config import Config
from ...core.choices import Choices
from ...core.event import Event
from ..author import Authors, Events
from ..engine import events as ee
from ..scheduler.generate import SchedulerAuthor
from . import events as oe

__all__ = ["AUTHORS", "OverlapAuthor"]


class OverlapAuthor(SchedulerAuthor):
    """Writes the next event: most often the next half of a turn.

    Each tape has habits of its own: how many requests a batch stops (`stopping`), and how often requests arrive
    (`crowd`), are aborted (`aborting`), or wait for transfers between the halves (`slow`).
    """

    def __init__(self, choices: Choices, config: Config, events: Events) -> None:
        super().__init__(choices, config, events)
        self.stopping = choices.pick((0, 5, 30))
        self.crowd = choices.pick((10, 30, 60))
        self.aborting = choices.pick((0, 5, 20))
        self.slow = choices.pick((0, 20)) if config.host_full_size else 0
        self.coming: deque[Event] = deque()

    def event(self) -> Event:
        """The next event."""
        if self.coming:
            return self.coming.popleft()
        idle = [number for number in self.numbers if number not in self.alive]
        if not self.alive or (idle and self.choices.chance(self.crowd)):
            return self.submit()
        if self.choices.chance(self.aborting):
            return ee.Abort(self.gone())
        others = list(self.more.values())
        if others and self.choices.chance(20):
            return others[self.choices.weighted([event.weight for event in others])].draw(self)
        for _ in range(self.choices.pick((1, 1, 2, 4))):
            self._turn()
        return self.coming.popleft()

    def _turn(self) -> None:
        """One turn of the loop."""
        stops = tuple(number for number in self.alive if self.choices.chance(self.stopping))
        for number in stops:
            self.alive.remove(number)
        self.coming.append(oe.Launch(self.token(), stops))
        if self.choices.chance(self.slow):
            self.coming.append(self.transfer_done())
        self.coming.append(oe.Process())


AUTHORS: Authors = {"two batches in flight": lambda before: OverlapAuthor}
"""See `staleloc.sim.parts.author`."""
