"""Locks: a node is locked once for each running request whose tokens lead through it, and for queued transfers."""

from __future__ import annotations

from staleloc.models.radix import wanted_locks
from staleloc.sim.divergence import Divergence
from staleloc.sim.engine.step import EngineCheck, EngineStep

__all__ = ["CHECK"]


def _run(step: EngineStep) -> Divergence | None:
    world = step.world
    shared = {number: world.requests[number].tokens[: view.shared] for number, view in step.requests.items()}
    wanted = wanted_locks(step.placed, shared)
    quiet = not step.target.pending()
    for node in step.tree:
        if node.full is None or node.full_locks < 0:
            continue
        need = wanted[node.node]
        if node.full_locks < need:
            what = f"node {node.node} is locked {node.full_locks} times and {need} running requests need it"
            return step.diverges("use-after-free", CHECK.name, what, "a lock was released early")
        if quiet and node.full_locks > need:
            what = f"node {node.node} is locked {node.full_locks} times and only {need} running requests need it"
            return step.diverges("leak", CHECK.name, what, "a lock was never released: the node can not be evicted")
        if node.swa_locks > node.full_locks:
            what = f"node {node.node} has {node.swa_locks} SWA locks and {node.full_locks} full locks"
            return step.diverges("leak", CHECK.name, what, "an SWA lock outlived its full lock")
    return None


CHECK = EngineCheck("locks", _run)
