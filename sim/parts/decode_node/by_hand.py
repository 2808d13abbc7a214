"""A decode node whose steps are called by hand, one method an event: what a stand-alone script drives."""

from __future__ import annotations

from typing import ClassVar, cast

from ....models.config import Config
from ....models.decode_node import DecodeWorld
from ....models.engine import EngineWorld
from ...core.divergence import Divergence
from ...core.event import Event
from ...targets.disagg import DisaggTarget
from ..engine.by_hand import Engine
from ..engine.step import EngineStep
from .events import DISAGG_EVENTS
from .failure import failure
from .play import DISAGG_PLAY
from .step import DisaggStep, step_of

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
