"""Speculative decode whose steps are called by hand, one method an event: what a stand-alone script drives."""

from __future__ import annotations

from typing import ClassVar, cast

from staleloc.models.config import Config
from staleloc.models.engine import EngineWorld
from staleloc.models.speculative import SpecWorld
from staleloc.sim.engine.by_hand import Engine
from staleloc.sim.engine.step import EngineStep
from staleloc.sim.events import Event
from staleloc.sim.speculative.play import SPEC_PLAY
from staleloc.sim.speculative.step import SpecStep
from staleloc.sim.targets.speculative import SpeculativeTarget

__all__ = ["Speculator"]


class Speculator(Engine):
    """A `SpeculativeTarget` with an empty cache, and a method for each of its events. See `Engine`."""

    events: ClassVar[dict[str, type[Event]]] = {event.kind: event for event in SPEC_PLAY}

    def _world_of(self, config: Config) -> EngineWorld:
        return SpecWorld(config, cast(SpeculativeTarget, self._target).spec_rules())

    def _step(self, index: int, event: Event) -> EngineStep:
        return SpecStep(index, event, cast(SpecWorld, self._world), self._target)

    def _act(self, step: EngineStep) -> bool:
        return SPEC_PLAY[type(step.event)](cast(SpecStep, step), step.event)
