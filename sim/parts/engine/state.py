"""What an engine holds after a step, as lines for people: pools, transfers, requests and nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...targets.base import FreeSlots
from ...targets.engine import NodeView, RequestView
from .step import EngineStep

__all__ = ["inside", "locks_of"]


def inside(step: EngineStep) -> Iterator[str]:
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
    return f"full {_list(sorted(slots.full))}, SWA {_list(sorted(slots.swa))}"


def _request(step: EngineStep, number: int, view: RequestView) -> str:
    swa = [step.mapping[loc] for loc in view.row]
    known = step.world.requests.get(number)
    tokens = "" if known is None else f"tokens {_list(known.tokens)}; "
    return f"{tokens}full locs {_list(view.row)}, mapped to SWA {_list(swa)}; the first {view.shared} are the tree's"


def _node(node: NodeView) -> str:
    under = "the root" if node.parent is None else f"node {node.parent}"
    slots = {"full": node.full, "SWA": node.swa, "host full": node.host_full, "host SWA": node.host_swa}
    held = ", ".join(f"{name} {_list(places)}" for name, places in slots.items() if places is not None)
    return f"under {under}; tokens {_list(node.tokens)}; {held}; locks {locks_of(node)}"


def locks_of(node: NodeView) -> str:
    """A node's locks; those that the engine does not show are said to be unseen."""
    swa = "unseen" if node.swa_locks < 0 else node.swa_locks
    return f"{node.full_locks} full, {swa} SWA" + (f", {node.host_locks} host" if node.host_locks else "")


def _list(numbers: Sequence[int]) -> str:
    return f"[{' '.join(map(str, numbers))}]"
