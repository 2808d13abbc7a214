"""A decode node whose steps are called by hand, one method an event: what a stand-alone script drives."""

from __future__ import annotations

from typing import ClassVar, cast

from staleloc.models.config import Config
from staleloc.models.decode_node import DecodeWorld
from staleloc.models.engine import EngineWorld
from staleloc.sim.disagg.events import DISAGG_EVENTS
from staleloc.sim.disagg.failure import failure
from staleloc.sim.disagg.play import DISAGG_PLAY
from staleloc.sim.disagg.step import DisaggStep, step_of
from staleloc.sim.divergence import Divergence
from staleloc.sim.engine.by_hand import Engine
from staleloc.sim.engine.step import EngineStep
from staleloc.sim.events import Event
from staleloc.sim.targets.disagg import DisaggTarget

__all__ = ["DecodeNode"]


class DecodeNode(Engine):
    """A `DisaggTarget` with an empty cache, and a method for each event of a decode node. See `Engine`."""

    events: ClassVar[dict[str, type[Event]]] = Engine.events | {event.kind: event for event in DISAGG_EVENTS}

    def _world_of(self, config: Config) -> EngineWorld:
        return DecodeWorld(config, self._node.rules())

    def _step(self, index: int, event: Event) -> EngineStep:
        return step_of(index, event, cast(DecodeWorld, self._world), self._node)

    def _act(self, step: EngineStep) -> bool:
        return DISAGG_PLAY[type(step.event)](cast(DisaggStep, step), step.event)

    def _failure(self, step: EngineStep, error: BaseException) -> Divergence:
        return failure(cast(DisaggStep, step), error)

    @property
    def _node(self) -> DisaggTarget:
        return cast(DisaggTarget, self._target)
