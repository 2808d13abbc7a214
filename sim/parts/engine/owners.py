"""The check of owners: whose each slot is, and what an event did to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....models.hicache import Fault, partition_fault
from ...core.divergence import Divergence
from ...targets.engine import NodeView, RequestView
from ..check import check
from .step import EngineStep, Raw

__all__ = ["check_owners"]

_POOLS = ("full", "SWA")
"""Pools of the device."""

_SHARED = "shared"
"""The pool of a fault in what a request shares with the tree."""


@check("owners", order=60)
def check_owners(step: EngineStep) -> Divergence | None:
    """Owners: every slot of every pool is free, a node's, a request's own, or in flight, and only one of these."""
    fault = _device_fault(step) or _shared_fault(step) or _host_fault(step)
    return None if fault is None else step.diverges(fault.kind, fault.what, _why(step, fault))


def _device_fault(step: EngineStep) -> Fault | None:
    config = step.world.config
    for number, view in step.requests.items():
        wild = next((loc for loc in view.row[view.shared :] if not 0 <= loc < len(step.mapping)), None)
        if wild is not None:
            return Fault("out-of-bounds", f"request {number} has full loc {wild}, which the mapping has no entry for")
    flying, _ = step.in_flight
    full, swa = (_owned(pool, step.tree, step.requests, step.mapping, config.page_size) for pool in _POOLS)
    return partition_fault("full", config.full_pages, step.free.full, full, step.pages(flying.full)) or partition_fault(
        "SWA", config.swa_pages, step.free.swa, swa, step.pages(flying.swa)
    )


def _owned(
    pool: str, tree: Sequence[NodeView], requests: Mapping[int, RequestView], mapping: Sequence[int], size: int
) -> dict[str, set[int]]:
    """Owners of the device pages of a pool -> their pages."""
    swa = pool == "SWA"
    owned = {}
    for node in tree:
        slots = node.swa if swa else node.full
        if slots:
            owned[f"node {node.node}"] = {slot // size for slot in slots}
    for number, view in requests.items():
        own = view.row[view.shared :]
        held = [mapping[loc] for loc in own if mapping[loc]] if swa else [*own]
        owned[f"request {number}"] = {slot // size for slot in held}
    return owned


def _shared_fault(step: EngineStep) -> Fault | None:
    """What a running request shares with the tree must be the tree's: nobody else keeps it alive."""
    kept = {page for node in step.tree for page in step.pages(node.full)}
    for number, view in step.requests.items():
        lost = step.pages(view.row[: view.shared]) - kept
        if lost:
            what = f"request {number} still uses full page {min(lost)}, which the tree freed"
            return Fault("use-after-free", what, _SHARED, min(lost), (f"request {number}",))
    return None


def _host_fault(step: EngineStep) -> Fault | None:
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


def _why(step: EngineStep, fault: Fault) -> str:
    """What the event did to the page, in a sentence; empty if that cannot be known, and the class has to speak."""
    before = step.previous
    if before is None or fault.pool not in (*_POOLS, _SHARED):
        return ""
    pool, page, size = fault.pool, fault.page, step.world.config.page_size
    event = f"[{step.index}] at event {{{step.index}}}"
    if pool == _SHARED:
        return _why_shared(step, before, event, page, fault.owners[0])
    if fault.kind == "out-of-bounds":
        dummy = f"{event} left {fault.owners[0]} with tokens that count as tokens with an SWA slot and have none"
        return dummy if pool == "SWA" and page == 0 else ""
    free = page in (before.free.swa if pool == "SWA" else before.free.full)
    owned = _owned(pool, before.tree, before.requests, before.mapping, size)
    had = [owner for owner, pages in owned.items() if page in pages]
    named = f"{pool} page {page}"
    if fault.kind == "leak":
        return _why_lost(step, before, event, named, had, free) + _still_mapped(step, pool, page)
    if fault.kind == "double-free":
        if free:
            return f"{event} put {named} into the free list again, where it was before"
        return f"{event} freed {named} more than once"
    if fault.kind == "race":
        return f"{event} freed {named} before the queued copy of it was over"
    takers = [owner for owner in fault.owners if owner not in had]
    if not takers:
        return f"{event} freed {named}, and {fault.owners[0]} still has it"
    verb = f"rewrote the row of {takers[-1]}, and so" if _rewritten(step, before, takers[-1]) else "and so"
    verb = "" if verb == "and so" else f"{verb} "
    if fault.kind == "alias" and had:
        return f"{event} {verb}gave {takers[-1]} {named}, which {had[0]} has"
    if pool == "SWA" and free and fault.kind == "use-after-free":
        through = _mapped(step, before, takers[-1], page)
        if through:
            return f"{event} {verb}gave {takers[-1]} {through}, and that page is free"
    was = "was free before and is free now" if free else "it also freed"
    return f"{event} {verb}gave {takers[-1]} {named}, which {was}"


def _why_lost(step: EngineStep, before: Raw, event: str, named: str, had: Sequence[str], free: bool) -> str:
    if free:
        return f"{event} took {named} from the free list and left it to nobody"
    rewritten = next((it for it in had if _rewritten(step, before, it)), None)
    if rewritten is not None:
        return f"{event} rewrote the row of {rewritten}, and did not free {named}, which the row had named"
    return f"{event} took {named} from {' and '.join(had) or 'a transfer'} and did not free it"


def _still_mapped(step: EngineStep, pool: str, page: int) -> str:
    """The node whose full loc leads to an SWA page that nobody has, if there is one."""
    size, mapping = step.world.config.page_size, step.mapping
    for node in step.tree if pool == "SWA" else ():
        for loc in node.full or ():
            if mapping[loc] // size == page:
                return f"; full loc {loc} of node {node.node} still maps to it"
    return ""


def _why_shared(step: EngineStep, before: Raw, event: str, page: int, owner: str) -> str:
    nodes = [node.node for node in before.tree if page in step.pages(node.full)]
    if _rewritten(step, before, owner):
        return f"{event} rewrote the row of {owner}, and no node has full page {page}"
    if nodes:
        return f"{event} took full page {page} from node {nodes[0]}, which {owner} shares"
    return f"{event} counts full page {page} of {owner} as the tree's, and no node has it"


def _rewritten(step: EngineStep, before: Raw, owner: str) -> bool:
    """Whether the event changed what an owner's row had named; nodes have no row."""
    kind, _, number = owner.partition(" ")
    now, old = step.requests.get(int(number)), before.requests.get(int(number))
    if kind != "request" or now is None or old is None:
        return False
    return any(a != b for a, b in zip(now.row, old.row, strict=False))


def _mapped(step: EngineStep, before: Raw, owner: str, page: int) -> str:
    """The full loc of a request that leads to an SWA page, and since when; empty for a node."""
    kind, _, number = owner.partition(" ")
    if kind != "request":
        return ""
    row, size = step.requests[int(number)].row, step.world.config.page_size
    loc = next(loc for loc in row if step.mapping[loc] // size == page)
    still = "still maps" if before.mapping[loc] == step.mapping[loc] else "now maps"
    return f"full loc {loc}, which {still} to SWA page {page}"
