"""Masks: what had an SWA slot when a request was retracted, and has one when it resumes, comes back; nothing else does.

For each position: was it held, is it mapped, was it restored, and does the next forward read it? What was held is what
was mapped, and what was restored is what the slots hold: how a copy keeps its mask is the engine's own business.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....core.divergence import Divergence
from ....targets.base import V_MARK, Rows
from ...check import Check
from ..step import DisaggStep

__all__ = ["CHECK"]


def _run(step: DisaggStep) -> Divergence | None:
    for number in step.resumed or ():
        for what, why in _faults(step, number):
            what = f"token {what}"
            return step.diverges("mask-asymmetry", CHECK.name, what, _hint(step, number) or why)
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
            yield f"{who} is in the window, and was {was}, and is {now}", "the next forward reads a row nobody restored"


def _unrestored(step: DisaggStep, number: int, position: int, slot: int) -> str:
    """The first SWA layer whose row is not the token's, and what is there."""
    world = step.world
    for layer, swa in enumerate(world.swa_layers):
        (tag,) = world.row_tags(number, position, position + 1, layer)
        found = _row(step.contents[layer], slot)
        if swa and found not in ((tag, None), (tag, tag + V_MARK)):
            there = found[0] if found[0] != tag else found[1] - V_MARK if found[1] is not None else 0
            return f"and layer {layer} there holds {world.name(there)}, expected {world.name(tag)}"
    return ""


def _overwritten(step: DisaggStep, slot: int) -> str:
    """The first SWA layer in which the event wrote a slot."""
    assert step.before is not None
    for layer, swa in enumerate(step.world.swa_layers):
        before, after = _row(step.before.contents[layer], slot), _row(step.contents[layer], slot)
        if swa and before != after:
            held = step.world.name(before[0])
            return f"layer {layer} of its SWA slot {slot} held {held} and now holds {step.world.name(after[0])}"
    return ""


def _row(rows: Rows, slot: int) -> tuple[int, int | None]:
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


CHECK = Check("masks", _run, order=90)
