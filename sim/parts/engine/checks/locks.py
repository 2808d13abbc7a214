"""Locks: a node is locked once for each running request whose tokens lead through it, and for queued transfers.

Its SWA slots are locked once for each request whose window reaches into it, or more often: an engine locks whole
nodes, and may keep locked what a window has left behind. A lock that is just taken reaches no node that ends before
the window. Its host slots are locked for load-backs.
"""

from __future__ import annotations

from .....models.radix import wanted_locks
from ....core.divergence import Divergence
from ...check import Check
from ..events import Admit, Checkpoint
from ..step import EngineStep

__all__ = ["CHECK"]


def _run(step: EngineStep) -> Divergence | None:
    world = step.world
    shared = {number: step.path(number, view.shared) for number, view in step.requests.items()}
    wanted = wanted_locks(step.keyed, shared)
    allowed = wanted_locks(step.keyed, {**shared, **step.lockable})
    starts = {number: world.requests[number].window(world.config.window)[0] for number in shared}
    windows = wanted_locks(step.keyed, shared, starts)
    quiet = not step.target.pending()
    for node in step.tree:
        if node.full is None or node.full_locks < 0:
            continue
        need = wanted[node.node]
        if node.full_locks < need:
            what = f"node {node.node} is locked {node.full_locks} times and {need} running requests need it"
            return step.diverges("use-after-free", CHECK.name, what, "a lock was released early")
        if quiet and node.full_locks > allowed[node.node]:
            need = allowed[node.node]
            what = f"node {node.node} is locked {node.full_locks} times and only {need} running requests need it"
            return step.diverges("leak", CHECK.name, what, "a lock was never released: the node can not be evicted")
        if node.swa is not None and 0 <= node.swa_locks < windows[node.node]:
            need = windows[node.node]
            what = f"node {node.node} has {node.swa_locks} SWA locks and {need} running requests attend to it"
            return step.diverges("use-after-free", CHECK.name, what, "an SWA lock was released early")
        if node.swa_locks > node.full_locks:
            what = f"node {node.node} has {node.swa_locks} SWA locks and {node.full_locks} full locks"
            return step.diverges("leak", CHECK.name, what, "an SWA lock outlived its full lock")
    return _beyond(step) or _host(step)


def _beyond(step: EngineStep) -> Divergence | None:
    """Looked at where a lock was just taken and is the only one: later a node that it holds may be split.

    With speculative decode keys are of pairs of tokens, and a draft may want more than the window.
    """
    event, window = step.event, step.world.config.window
    if not isinstance(event, Admit | Checkpoint) or "spec" in step.world.config.features or step.target.pending():
        return None
    if step.requests.keys() != {event.request}:
        return None
    start = step.requests[event.request].shared - window
    ends = {item.node.node: len(item.path) for item in step.keyed}
    for node in step.tree:
        if node.swa_locks > 0 and ends[node.node] <= start:
            what = f"node {node.node} has {node.swa_locks} SWA locks and ends before the only request's window"
            return step.diverges("leak", CHECK.name, what, "its SWA slots stay taken for as long as the request runs")
    return None


def _host(step: EngineStep) -> Divergence | None:
    """Only a load-back locks what it reads on the host, until it has read it (there is no storage behind the host)."""
    loading = any(not copy.to_host for copy in step.copying)
    for node in step.tree:
        if node.host_locks is not None and node.host_locks < 0:
            what = f"node {node.node} is locked {node.host_locks} times on the host"
            return step.diverges("use-after-free", CHECK.name, what, "a host lock was released that nobody had taken")
        if node.host_locks and not loading:
            what = f"node {node.node} is locked {node.host_locks} times on the host, and nothing is being loaded back"
            return step.diverges("leak", CHECK.name, what, "a host lock was never released: its host slots stay taken")
    return None


CHECK = Check("locks", _run, order=180)
