"""Mapping: after every event, every entry of the raw table is what the events made it."""

from __future__ import annotations

from ....core.divergence import MAX_ROWS, Divergence, LocRow
from .base import Check, Step

__all__ = ["CHECK"]


def _run(step: Step) -> Divergence | None:
    mapping = step.world.mapping
    bare = next((grant for grant in step.grants if grant.due and not grant.swa), None)
    if bare is not None:
        token = f"token {bare.position} of request {bare.request}"
        what = f"{token} is due an SWA slot, and full loc {bare.loc} was mapped to none"
        return step.diverges("wrong-mapping", CHECK.name, what)
    if step.mapping == mapping.table:
        return None
    if len(step.mapping) != len(mapping.table):
        what = f"the mapping has {len(step.mapping)} entries instead of {len(mapping.table)}"
        return step.diverges("wrong-mapping", CHECK.name, what)
    wrong = [
        (loc, expected, actual)
        for loc, (expected, actual) in enumerate(zip(mapping.table, step.mapping, strict=True))
        if expected != actual and mapping.lenient.get(loc) != actual
    ]
    if not wrong:
        return None
    rows = []
    for loc, expected, actual in wrong[:MAX_ROWS]:
        changes = mapping.history.get(loc, [])
        stale = changes[-1].event if changes and actual in {change.swa for change in changes[:-1]} else None
        rows.append(LocRow(loc, expected, actual, stale, mapping.used.get(loc)))
    loc, expected, actual = wrong[0]
    what = f"the mapping of full loc {loc} is {actual}, expected {expected}"
    if len(wrong) > 1:
        what += f" ({len(wrong)} entries differ)"
    return step.diverges("wrong-mapping", CHECK.name, what, _why(step, loc, expected, actual), rows)


def _why(step: Step, loc: int, expected: int, actual: int) -> str:
    changes = step.world.mapping.history.get(loc, [])
    previous = [change for change in changes if change.swa == actual]
    if expected == 0 and previous:
        cleared = next((c.event for c in changes if c.event >= previous[-1].event and c.swa != actual), step.index)
        return (
            f"full loc {loc} was mapped to {actual} at event {{{previous[-1].event}}} and must have no SWA slot "
            f"since event {{{cleared}}}, but its entry survived"
        )
    if actual == 0 and changes:
        return (
            f"full loc {loc} has its SWA slot {expected} since event {{{changes[-1].event}}}, but its entry was cleared"
        )
    return f"event {{{step.index}}} left the entry of full loc {loc} at {actual}"


CHECK = Check("mapping", _run)
