"""Situations that show in the state around an event of speculative decode on a decode node."""

from __future__ import annotations

from ....models.decode_node import Stage
from ....models.spec_node import SpecNodeWorld
from ..decode_node.events import Retract
from ..part import Observer
from .step import SpecNodeStep

__all__ = ["SpecNodeNoticer"]


class SpecNodeNoticer(Observer):
    """Counts what only the two parts together can bring about."""

    def __init__(self, world: SpecNodeWorld) -> None:
        self._world = world
        self._resumed: set[int] = set()

    def before(self, step: SpecNodeStep) -> None:
        """A request is about to be retracted: does it hold slots ahead of what is committed?"""
        event, world = step.event, self._world
        if isinstance(event, Retract) and world.may_retract(event.request):
            request = world.speculating(event.request)
            if world.config.pages(request.committed) < world.config.pages(request.allocated):
                world.saw("surplus_at_retract")

    def look(self, step: SpecNodeStep) -> None:
        """Count the situations that this event brought about."""
        world = self._world
        self._resumed.update(step.resumed or ())
        self._resumed &= world.requests.keys()
        for number in step.accepted:
            world.saw("speculated_after_transfer")
            if number in self._resumed:
                world.saw("speculated_after_resume")
            if world.accounts.uses_tail and world.accounts.tail(world.job(number).prompt) < world.job(number).prompt:
                world.saw("tail_speculated")
        if step.round is not None and step.round.admitted:
            self._admitted(step)

    def _admitted(self, step: SpecNodeStep) -> None:
        world = self._world
        assert step.round is not None
        running = [world.speculating(number) for number in world.queues[Stage.RUNNING]]
        if any(request.allocated > request.computed for request in running):
            world.saw("admitted_beside_surplus")
        if world.config.bigram and any(item.cached for item in step.round.admitted):
            world.saw("paired_with_prefix")
