"""Owners: every slot of every pool is free, a node's, a request's own, or in flight, and only one of these."""

from __future__ import annotations

from .....models.hicache import Fault, partition_fault
from ....core.divergence import Divergence
from ...check import Check
from ..step import EngineStep

__all__ = ["CHECK"]


def _run(step: EngineStep) -> Divergence | None:
    fault = _device(step) or _shared(step) or _host(step)
    return None if fault is None else step.diverges(fault.kind, CHECK.name, fault.what)


def _device(step: EngineStep) -> Fault | None:
    config = step.world.config
    full = {f"node {node.node}": step.pages(node.full) for node in step.tree if node.full}
    swa = {f"node {node.node}": step.pages(node.swa) for node in step.tree if node.swa}
    for number, view in step.requests.items():
        own = view.row[view.shared :]
        wild = next((loc for loc in own if not 0 <= loc < len(step.mapping)), None)
        if wild is not None:
            return Fault("out-of-bounds", f"request {number} has full loc {wild}, which the mapping has no entry for")
        full[f"request {number}"] = step.pages(own)
        swa[f"request {number}"] = step.pages([step.mapping[loc] for loc in own if step.mapping[loc]])
    flying, _ = step.in_flight
    return partition_fault("full", config.full_pages, step.free.full, full, step.pages(flying.full)) or partition_fault(
        "SWA", config.swa_pages, step.free.swa, swa, step.pages(flying.swa)
    )


def _shared(step: EngineStep) -> Fault | None:
    """What a running request shares with the tree must be the tree's: nobody else keeps it alive."""
    kept = {page for node in step.tree for page in step.pages(node.full)}
    for number, view in step.requests.items():
        lost = step.pages(view.row[: view.shared]) - kept
        if lost:
            what = f"request {number} goes on using full page {min(lost)}, which the tree gave up"
            return Fault("use-after-free", what)
    return None


def _host(step: EngineStep) -> Fault | None:
    config = step.world.config
    if not config.host_full_size:
        return None
    _, flying = step.in_flight
    for name, attribute, size, free, used in (
        ("host full", "host_full", config.host_full_size, step.host_free.full, flying.full),
        ("host SWA", "host_swa", config.host_swa_size, step.host_free.swa, flying.swa),
    ):
        owners = {f"node {node.node}": [slot + 1 for slot in getattr(node, attribute) or ()] for node in step.tree}
        fault = partition_fault(name, size, [slot + 1 for slot in free], owners, [slot + 1 for slot in used])
        if fault is not None:
            return fault
    return None


CHECK = Check("owners", _run, order=60)
