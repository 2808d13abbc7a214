"""Checks of a decode node: queues, budgets, transfers, and what retraction and window eviction leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from ....models.budgets import budget_terms, budgets
from ....models.decode_node import Stage
from ....models.disaggregation import Load, Tokens
from ...core.divergence import Divergence
from ...targets.base import V_MARK, Rows
from ...targets.disagg import Preallocation
from ..check import check, listed
from ..engine.events import EvictWindow
from .events import Start
from .rounds import round_fault
from .step import DisaggStep, locks_seen

__all__ = [
    "check_queues", "check_masks", "check_transfer", "check_evicted", "check_over_admission", "check_starvation",
    "check_lengths", "check_prebuilt",
]  # fmt: skip

_ORDERED = (Stage.QUEUED, Stage.RETRACTED)

_HOLDING = (Stage.TRANSFERRING, Stage.WAITING, Stage.PREBUILT, Stage.RUNNING)

_POOLS = ("full", "SWA")


@check("queues", order=30)
def check_queues(step: DisaggStep) -> Divergence | None:
    """Queues: each request is in the queue that the events put it in, and holds slots if requests of that queue do.

    The queues in which order counts have the right one.
    """
    for stage, wanted in step.world.queues.items():
        found: tuple[int, ...] = getattr(step.queues, stage.value)
        expected = tuple(wanted)
        if stage not in _ORDERED:
            found, expected = tuple(sorted(found)), tuple(sorted(expected))
        if found != expected:
            what = f"{stage.value}: requests {listed(found)}, expected {listed(expected)}"
            return step.diverges("leak", what, "a request is in another queue than the events put it in")
    return _holders(step)


def _holders(step: DisaggStep) -> Divergence | None:
    """Slots are held by the requests at these stages, and by no others."""
    expected = {number for stage in _HOLDING for number in step.world.queues[stage]}
    if step.requests.keys() == expected:
        return None
    what = f"requests {listed(tuple(sorted(step.requests)))} hold slots, expected {listed(tuple(sorted(expected)))}"
    return step.diverges(
        "leak", what, "a request that left keeps its slots, or a request that is still there lost them"
    )


@check("masks", order=90)
def check_masks(step: DisaggStep) -> Divergence | None:
    """Masks: what had an SWA slot when a request was retracted, and has one when it resumes, comes back; nothing else
    does.

    For each position: was it held, is it mapped, was it restored, and does the next forward read it? What was held is
    what was mapped, and what was restored is what the slots hold: how a copy keeps its mask is the engine's own
    business.
    """
    for number in step.resumed or ():
        for what, why in _faults(step, number):
            what = f"token {what}"
            return step.diverges("mask-asymmetry", what, _hint(step, number) or why)
    return None


def _faults(step: DisaggStep, number: int) -> Iterator[tuple[str, str]]:
    """What is wrong with one resumed request, and what that means."""
    world, row = step.world, step.requests[number].row
    job = world.job(number)
    start, stop = job.window(world.config.window)
    sent = world.accounts.sent_from(job.prompt, job.cached, len(job.swa))  # a row before was never written
    for position in range(min(stop, len(job.held), len(row))):
        held, slot = job.held[position], step.mapping[row[position]]
        who = f"{position} of request {number}"
        if not held and slot:
            written = _overwritten(step, slot)
            if written:
                yield f"{who} had no SWA slot when it was copied, and {written}", "no copy can hold that row"
        if held and slot and position >= sent and position not in job.holes:
            lost = _unrestored(step, number, position, slot)
            if lost:
                yield f"{who} was held and is mapped to SWA slot {slot}, {lost}", "it is not in its place again"
        elif position >= max(start, sent):
            was, now = "held" if held else "not held", "mapped" if slot else "not mapped"
            yield (
                f"{who} is in the window, and was {was}, and is {now}",
                "the next forward reads a row that was not restored",
            )


def _unrestored(step: DisaggStep, number: int, position: int, slot: int) -> str:
    """The first SWA layer whose row is not the token's, and what is there."""
    world = step.world
    for layer, swa in enumerate(world.swa_layers):
        (tag,) = world.row_tags(number, position, position + 1, layer)
        found = _row_at(step.contents[layer], slot)
        if swa and found not in ((tag, None), (tag, tag + V_MARK)):
            there = found[0] if found[0] != tag else found[1] - V_MARK if found[1] is not None else 0
            return f"and layer {layer} there holds {world.name(there)}, expected {world.name(tag)}"
    return ""


def _overwritten(step: DisaggStep, slot: int) -> str:
    """The first SWA layer in which the event wrote a slot."""
    assert step.before is not None
    for layer, swa in enumerate(step.world.swa_layers):
        before, after = _row_at(step.before.contents[layer], slot), _row_at(step.contents[layer], slot)
        if swa and before != after:
            held = step.world.name(before[0])
            return f"layer {layer} of its SWA slot {slot} held {held} and now holds {step.world.name(after[0])}"
    return ""


def _row_at(rows: Rows, slot: int) -> tuple[int, int | None]:
    return rows.keys[slot], None if rows.values is None else rows.values[slot]


def _hint(step: DisaggStep, number: int) -> str:
    """Where the copy shows its mask and that is not what was mapped, that may be the cause."""
    assert step.before is not None
    mask, held = step.before.saved.get(number, ()), step.world.job(number).held
    if not mask or mask == held:
        return ""
    return f"the copy's mask is {_bits(mask)}, and {_bits(held)} was mapped (x: the token has an SWA row)"


def _bits(mask: tuple[bool, ...]) -> str:
    return "".join("x" if bit else "." for bit in mask)


@check("transfer", order=100)
def check_transfer(step: DisaggStep) -> Divergence | None:
    """Transfer: the sender is told the pages that the request's row names, full ones and, by the mapping, SWA ones."""
    for item in step.round.admitted if step.round is not None else ():
        fault = _fault(step, item)
        if fault is not None:
            kind, what = fault
            return step.diverges(kind, f"request {item.request} {what}", "the sender writes elsewhere")
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


@check("evicted", order=110)
def check_evicted(step: DisaggStep) -> Divergence | None:
    """Evicted length: it covers every token in front of a request that has no SWA slot, and a window eviction gives up
    slots that are there."""
    given_up = _never_had(step)
    if given_up is not None:
        why = "its evicted length did not record this; if another request owns the slot, it loses it"
        return step.diverges("wrong-mapping", given_up, why)
    for number in _placed(step) if step.world.accounts.rules.records_tail else ():
        hole = _behind_evicted(step, number)
        if hole is not None:
            why = "window eviction, insertion and release go by the evicted length"
            return step.diverges("wrong-mapping", f"request {number} {hole}", why)
    return None


def _placed(step: DisaggStep) -> list[int]:
    """The requests that the event gave slots."""
    admitted = [] if step.round is None else [item.request for item in step.round.admitted]
    return [*admitted, *(step.resumed or ())]


def _behind_evicted(step: DisaggStep, number: int) -> str | None:
    """A request that was just given slots has SWA slots for all its own tokens behind its evicted length (SGLang PR
    28085: it stayed at 0 after a tail preallocation)."""
    view = step.requests[number]
    for position in range(max(view.shared, view.evicted), len(view.row)):
        if not step.mapping[view.row[position]]:
            return f"says that {view.evicted} tokens have no SWA slot, and neither has token {position}"
    return None


def _never_had(step: DisaggStep) -> str | None:
    """What a window eviction gives up had an SWA slot."""
    if not isinstance(step.event, EvictWindow) or step.before is None:
        return None
    number, mapping = step.event.request, step.before.mapping
    view, after = step.before.requests[number], step.requests[number]
    for position in range(max(view.shared, view.evicted), after.evicted):
        if not mapping[view.row[position]]:
            return f"request {number} frees the SWA slot of token {position}, which never had one"
    return None


@check("over-admission", order=190)
def check_over_admission(step: DisaggStep) -> Divergence | None:
    """Over-admission: a round of admission lets in no request that the budgets have no room for."""
    return round_fault(step, "over-admission")


@check("starvation", order=200)
def check_starvation(step: DisaggStep) -> Divergence | None:
    """Starvation: a round of admission keeps no request waiting that the budgets have room for, first come first
    served."""
    return round_fault(step, "starvation")


class _Count(NamedTuple):
    """One number: what it is, what the target says, what it must be, and whether more of it lets more in."""

    name: str
    found: int
    expected: int
    lets_in: bool = False
    terms: Mapping[str, int] | None = None


@check("lengths", order=210)
def check_lengths(step: DisaggStep) -> Divergence | None:
    """Lengths: what the node counts for each request, and what its budgets allow, is what the model counts.

    A count that is too low lets in a request that does not fit; one that is too high keeps one out.
    """
    for count in _counts(step):
        if count.found != count.expected:
            kind = "over-admission" if (count.found > count.expected) == count.lets_in else "starvation"
            what = f"{count.name} is {count.found}, expected {count.expected}"
            return step.diverges(kind, what, _sum(count))
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


@check("prebuilt", order=220)
def check_prebuilt(step: DisaggStep) -> Divergence | None:
    """Prebuilt: what the budgets leave for others while a batch of started requests has not joined the running one.

    Where a release lets it join within the same turn of its scheduler, no round of preallocation sees such a batch, and
    yet both budgets count with one. They are asked what they would say, right after the batch was made.
    """
    rules = step.world.accounts.rules
    if not (rules.joins_at_once and isinstance(step.event, Start) and locks_seen(step.tree)):
        return None
    found = step.node.raw_budgets_beside(list(step.started))
    expected = budgets(step.world.accounts, step.room, _apart(step), resuming=False)
    for pool, actual, wanted in zip(("full", "SWA"), found, expected, strict=True):
        if actual != wanted:
            kind = "over-admission" if actual > wanted else "starvation"
            what = f"beside a prebuilt batch of {len(step.started)} the {pool} budget is {actual}, expected {wanted}"
            why = "no scheduler loop of this release lets a round of preallocation see a prebuilt batch"
            return step.diverges(kind, what, why)
    return None


def _apart(step: DisaggStep) -> Load:
    """The requests, those that were just started neither running nor active."""
    load, running = step.world.load(), step.world.queues[Stage.RUNNING]
    return replace(
        load,
        running=[step.world.job(number) for number in running if number not in step.started],
        active=load.active - len(step.started),
        prebuilt=len(step.started),
    )
