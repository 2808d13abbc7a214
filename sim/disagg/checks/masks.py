"""Masks: a CPU copy holds the SWA rows that were mapped, and gives back those that are mapped now.

For each position: was it held, is it mapped, was it restored, and does the next forward read it?
"""

from __future__ import annotations

from staleloc.sim.disagg.events import Retract
from staleloc.sim.disagg.step import DisaggCheck, DisaggStep
from staleloc.sim.divergence import Divergence

__all__ = ["CHECK"]


def _run(step: DisaggStep) -> Divergence | None:
    if isinstance(step.event, Retract):
        if step.event.request not in step.world.requests:
            return None
        return _copied(step, step.event.request)
    for number in step.resumed or ():
        found = _loaded(step, number)
        if found is not None:
            return found
    return None


def _copied(step: DisaggStep, number: int) -> Divergence | None:
    """The mask says which tokens had an SWA slot."""
    assert step.before is not None
    row = step.before.requests[number].row[: step.world.job(number).computed]
    held = tuple(step.before.mapping[loc] > 0 for loc in row)
    mask = step.saved.get(number, ())
    if mask == held:
        return None
    what = f"the copy of request {number} says it holds SWA rows {_bits(mask)}, and the slots were mapped {_bits(held)}"
    return step.diverges("mask-asymmetry", CHECK.name, what)


def _loaded(step: DisaggStep, number: int) -> Divergence | None:
    """What is held and mapped was restored; what the next forward reads is both."""
    assert step.before is not None
    world, row = step.world, step.requests[number].row
    start, stop = world.job(number).window(world.config.window)
    held = step.before.saved.get(number, ())
    sent = world.accounts.sent_from(world.job(number).prompt, world.job(number).cached)
    for position in range(sent, min(stop, len(held), len(row))):  # a row before was never written
        slot = step.mapping[row[position]]
        what = f"token {position} of request {number}"
        if held[position] and slot:
            layer = _unrestored(step, number, position, slot)
            if layer is not None:
                what += f" was held and is mapped to SWA slot {slot}, and layer {layer} there holds"
                wanted = world.name(world.row_tags(number, position, position + 1, layer)[0])
                what += f" {world.name(step.contents[layer].keys[slot])}, expected {wanted}"
                return step.diverges("mask-asymmetry", CHECK.name, what, "a row was restored to another position")
        elif position >= start:
            what += f" is in the window, and was {'held' if held[position] else 'not held'}, and is "
            what += "mapped" if slot else "not mapped"
            return step.diverges("mask-asymmetry", CHECK.name, what, "the next forward reads a row nobody restored")
    return None


def _unrestored(step: DisaggStep, number: int, position: int, slot: int) -> int | None:
    """The first SWA layer whose row is not the token's."""
    for layer, swa in enumerate(step.world.swa_layers):
        if swa and step.contents[layer].keys[slot] != step.world.row_tags(number, position, position + 1, layer)[0]:
            return layer
    return None


def _bits(mask: tuple[bool, ...]) -> str:
    return "".join("x" if bit else "." for bit in mask) or "(none)"


CHECK = DisaggCheck("masks", _run)
