"""Speculative decode whose steps are called by hand, one method an event: what a stand-alone script drives."""

from __future__ import annotations

from typing import ClassVar, cast

from ....models.config import Config
from ....models.engine import EngineWorld
from ....models.speculative import SpecWorld
from ...core.event import Event
from ...targets.speculative import SpeculativeTarget
from ..engine.by_hand import Engine
from ..engine.step import EngineStep
from .play import SPEC_PLAY
from .step import SpecStep

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
