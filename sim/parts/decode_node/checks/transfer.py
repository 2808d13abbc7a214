"""Transfer: the sender is told the pages that the request's row names, full ones and, by the mapping, SWA ones."""

from __future__ import annotations

from ....core.divergence import Divergence
from ....targets.disagg import Preallocation
from ...check import Check
from ..step import DisaggStep

__all__ = ["CHECK"]


def _run(step: DisaggStep) -> Divergence | None:
    for item in step.round.admitted if step.round is not None else ():
        fault = _fault(step, item)
        if fault is not None:
            kind, what = fault
            return step.diverges(kind, CHECK.name, f"request {item.request} {what}", "the sender writes elsewhere")
    return None


def _fault(step: DisaggStep, item: Preallocation) -> tuple[str, str] | None:
    size, prompt = step.world.config.page_size, step.world.job(item.request).prompt
    row = step.requests[item.request].row
    if item.cached % size:
        return "misaligned", f"of {prompt} tokens has {item.cached} cached, and pages hold {size}"
    if item.cached >= prompt + (not step.world.accounts.rules.leaves_a_token):
        return "out-of-bounds", f"of {prompt} tokens has {item.cached} cached, and nothing is left for the sender"
    if len(row) != prompt:
        return "out-of-bounds", f"got slots for {len(row)} tokens and has {prompt}"
    start = step.world.accounts.sent_from(prompt, item.cached, len(item.swa))
    pools = (
        ("full", item.full, [loc // size for loc in row[item.cached :: size]]),
        ("SWA", item.swa, [step.mapping[loc] // size for loc in row[start::size]]),
    )
    for pool, told, pages in pools:
        if 0 in pages:
            return "out-of-bounds", f"has no {pool} slots for tokens that are sent, those from {start} on"
        if list(told) != pages:
            return "wrong-mapping", f"is told as {pool} pages {list(told)}, and its row names {pages}"
    return None


CHECK = Check("transfer", _run, order=100)
