"""An engine that is driven by hand, one method an event of whole requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...core.divergence import Divergence
from ...core.event import Event
from ...targets.base import FreeSlots
from ...targets.engine import NodeView, RequestView
from ..by_hand import ByHand
from ..check import listed
from ..registry import parts_of
from ..session import EngineSession
from .declared import DeclaredStep
from .scene import locks_of
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
        return _inside(self._step)


def _inside(step: EngineStep) -> Iterator[str]:
    """The lines."""
    yield f"free pages: {_pools(step.free)}"
    device, host = step.in_flight
    if device.full or device.swa or host.full or host.swa:
        yield f"slots of queued transfers: device {_pools(device)}; host {_pools(host)}"
    for number, request in sorted(step.requests.items()):
        yield f"request {number}: {_request(step, number, request)}"
    for node in step.tree:
        yield f"node {node.node}: {_node(node)}"


def _pools(slots: FreeSlots) -> str:
    return f"full {listed(sorted(slots.full))}, SWA {listed(sorted(slots.swa))}"


def _request(step: EngineStep, number: int, view: RequestView) -> str:
    swa = [step.mapping[loc] for loc in view.row]
    known = step.world.requests.get(number)
    tokens = "" if known is None else f"tokens {listed(known.tokens)}; "
    return f"{tokens}full locs {listed(view.row)}, mapped to SWA {listed(swa)}; the first {view.shared} are the tree's"


def _node(node: NodeView) -> str:
    under = "the root" if node.parent is None else f"node {node.parent}"
    slots = {"full": node.full, "SWA": node.swa, "host full": node.host_full, "host SWA": node.host_swa}
    held = ", ".join(f"{name} {listed(places)}" for name, places in slots.items() if places is not None)
    return f"under {under}; tokens {listed(node.tokens)}; {held}; locks {locks_of(node)}"
