"""Lengths: what the node counts for each request, and what it would hand out, is what the model counts.

A count that is too low lets in a request that does not fit; one that is too high keeps one out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from .....models.budgets import budget_terms
from .....models.decode_node import Stage
from .....models.disaggregation import Tokens
from ....core.divergence import Divergence
from ...check import Check
from ..step import DisaggStep, locks_seen

__all__ = ["CHECK"]

_POOLS = ("full", "SWA")


class _Count(NamedTuple):
    """One number: what it is, what the target says, what it must be, and whether more of it lets more in."""

    name: str
    found: int
    expected: int
    lets_in: bool = False
    terms: Mapping[str, int] | None = None


def _run(step: DisaggStep) -> Divergence | None:
    for count in _counts(step):
        if count.found != count.expected:
            kind = "over-admission" if (count.found > count.expected) == count.lets_in else "starvation"
            what = f"{count.name} is {count.found}, expected {count.expected}"
            return step.diverges(kind, CHECK.name, what, _sum(count))
    return None


def _sum(count: _Count) -> str:
    """What the expected number is made of, and which of it alone would explain the one that was found."""
    if count.terms is None:
        return ""
    kept = {name: tokens for name, tokens in count.terms.items() if tokens}
    parts = " ".join(f"{'-' if tokens < 0 else '+'} {abs(tokens)} {name}" for name, tokens in kept.items())
    off = count.found - count.expected
    alike = [f", as many as are {name}" for name, tokens in kept.items() if abs(tokens) == abs(off)]
    hint = f"; the node has {abs(off)} too {'many' if off > 0 else 'few'}{alike[0]}" if alike else ""
    return f"the budget is {parts.removeprefix('+ ') or 'nothing'}{hint}"


def _counts(step: DisaggStep) -> Iterator[_Count]:
    yield from _of_requests(step)
    world, node = step.world, step.node
    yield _Count("the number of active requests", node.raw_active(), world.load().active)
    if not locks_seen(step.tree):
        return
    for resuming, purpose in ((False, "a round of preallocation"), (True, "requests that resume")):
        terms = budget_terms(world.accounts, step.room, world.load(), resuming)
        for pool, found, made_of in zip(_POOLS, node.raw_budgets(resuming), terms, strict=True):
            yield _Count(f"the {pool} budget of {purpose}", found, sum(made_of.values()), True, made_of)


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


def _pools(name: str, found: tuple[int, int], expected: Tokens) -> Iterator[_Count]:
    for pool, actual, wanted in zip(_POOLS, found, expected, strict=True):
        yield _Count(f"the {pool} {name}", actual, wanted)


CHECK = Check("lengths", _run, order=210)
