"""An engine that is driven by hand, one method an event of whole requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...core.divergence import Divergence
from ...core.event import Event
from ..by_hand import ByHand
from ..registry import parts_of
from ..session import EngineSession
from .declared import DeclaredStep
from .state import inside
from .step import EngineStep

__all__ = ["Engine"]


class Engine(ByHand):
    """See `ByHand`."""

    level = "requests"
    harness = DeclaredStep

    _session: EngineSession
    _step: EngineStep

    def _begin(self) -> tuple[dict[str, Any], Any]:
        self._session = EngineSession(self._target, self._config, parts_of(self._config))
        return self._session.events, self._session.world

    def _refusal(self, event: Event) -> str | None:
        return event.lacks(self._profile)

    def _run(self, index: int, event: Event) -> Divergence | None:
        self._step = self._session.step(index, event)
        applies = self._session.act(self._step)
        return self._check.run(self._step) if applies and self._check is not None else None

    def _failure(self, error: BaseException) -> Divergence:
        return self._session.failure(self._step, error)

    def _inside(self) -> Iterable[str]:
        return inside(self._step)
