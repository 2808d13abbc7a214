"""A KV cache that is driven by hand, one method an event of the allocator level."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....models.world import World
from ...core.divergence import Divergence
from ...core.event import Event
from ...targets.base import TargetError
from ..by_hand import ByHand
from ..check import crash, listed
from ..legality import unfit
from .checks import EARLY, check_contents
from .declared import DeclaredCall
from .event import AllocatorEvent, Step
from .events import EVENTS
from .forwards import EndForward
from .ledger import Ledger
from .session import compare, last_look

__all__ = ["KvCache"]


class KvCache(ByHand):
    """See `ByHand`. The early checks always look: the world takes over no slots that are out of place."""

    level = "the allocator"
    harness = DeclaredCall

    _world: World
    _step: Step

    def _begin(self) -> tuple[dict[str, Any], World]:
        reason = unfit(self._config, self._profile)
        if reason is not None:
            raise TargetError(f"the tape cannot be played: {reason}")
        self._ledger = Ledger(self._config, self._profile.per_forward)
        self._checks = EARLY if self._check is None or self._check.early else (*EARLY, self._check)
        self._target.build(self._config)
        return {event.kind: event for event in EVENTS}, World(self._config, self._profile.restores_mapping)

    def _refusal(self, event: Event) -> str | None:
        asked: AllocatorEvent = event  # type: ignore[assignment]
        return asked.lacks(self._profile) or asked.violation(self._ledger)

    def _run(self, index: int, event: Event) -> Divergence | None:
        self._step = Step(index, event, self._world, self._target, ledger=self._ledger)
        found = compare(self._step, self._checks)
        if found is None:
            self._ledger.apply(event)
        return found

    def _failure(self, error: BaseException) -> Divergence:
        return crash(error, self._step.index, self._step.event, self._target.adapter)

    def _last_look(self) -> Divergence | None:
        if self._check != check_contents or not self._played:
            return None
        return last_look(Step(len(self._played) - 1, EndForward(), self._world, self._target))

    def _inside(self) -> Iterator[str]:
        free, table = self._target.raw_free(), self._target.raw_mapping()
        yield f"free pages: full {listed(sorted(free.full))}, SWA {listed(sorted(free.swa))}"
        for request, locs in sorted(self._world.requests.items()):
            swa: list[Any] = [table[loc] for loc in locs]
            yield f"request {request}: full locs {listed(locs)}, mapped to SWA {listed(swa)}"
