"""Lengths: what the node counts for each request, and what it would hand out, is what the model counts.

A count that is too low lets in a request that does not fit; one that is too high keeps one out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from staleloc.models.decode_node import Stage
from staleloc.models.disaggregation import Tokens
from staleloc.sim.disagg.step import DisaggCheck, DisaggStep, locks_seen
from staleloc.sim.divergence import Divergence

__all__ = ["CHECK"]


class _Count(NamedTuple):
    """One number: what it is, what the target says, what it must be, and whether more of it lets more in."""

    name: str
    found: int
    expected: int
    lets_in: bool = False


def _run(step: DisaggStep) -> Divergence | None:
    for count in _counts(step):
        if count.found != count.expected:
            kind = "over-admission" if (count.found > count.expected) == count.lets_in else "starvation"
            return step.diverges(kind, CHECK.name, f"{count.name} is {count.found}, expected {count.expected}")
    return None


def _counts(step: DisaggStep) -> Iterator[_Count]:
    yield from _of_requests(step)
    world, node = step.world, step.node
    yield _Count("the number of active requests", node.raw_active(), world.load().active)
    if not locks_seen(step.tree):
        return
    for resuming, purpose in ((False, "a round of preallocation"), (True, "requests that resume")):
        budgets = world.accounts.budgets(step.room, world.load(), resuming)
        yield from _pools(f"budget of {purpose}", node.raw_budgets(resuming), budgets, lets_in=True)


def _of_requests(step: DisaggStep) -> Iterator[_Count]:
    world, node = step.world, step.node
    accounts = world.accounts
    if step.asked is not None:
        yield _Count("a pool that takes tail preallocation", int(node.raw_uses_tail()), int(accounts.uses_tail), True)
        length = step.asked.prompt
        yield _Count(f"the tail of {length} tokens", node.raw_tail(length), accounts.tail(length))
    for number in world.requests:
        job = world.job(number)
        yield from _pools(f"length of request {number}", node.raw_lengths(number), accounts.lengths(job))
        yield from _pools(f"need of request {number}", node.raw_required(number), accounts.required(job))
        if job.stage is Stage.RUNNING:
            back = accounts.retractable([job]).swa
            name = f"what retracting request {number} frees of the SWA pool"
            yield _Count(name, node.raw_retractable(number), back, lets_in=True)


def _pools(name: str, found: tuple[int, int], expected: Tokens, lets_in: bool = False) -> Iterator[_Count]:
    for pool, actual, wanted in zip(("full", "SWA"), found, expected, strict=True):
        yield _Count(f"the {pool} {name}", actual, wanted, lets_in)


CHECK = DisaggCheck("lengths", _run)
