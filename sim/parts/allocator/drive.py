"""The heart: play one tape on the target and in the world, and compare after every event.

    verdict = drive(tape, target, profile)
    verdict.divergence    # None, or the first difference

The only place that sees both sides. The first divergence ends the tape: after it, nothing that
follows means anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....models.world import World
from ...core.divergence import Divergence
from ...core.tape import Tape
from ...core.timeouts import PASSED_ON, Stuck, hang, patience
from ...core.verdict import Verdict
from ...targets.base import Profile, Target
from ..crash import crash
from .checks import EARLY, LATE, Check, Step
from .checks.contents import sweep
from .event import AllocatorEvent
from .forwards import EndForward
from .ledger import Ledger

__all__ = ["drive"]


def drive(tape: Tape, target: Target, profile: Profile) -> Verdict:
    """Play a legal tape on a target that is driven as `profile` says.

    Raises:
        TargetError: the harness cannot drive this target; nothing was found out.
    """
    world = World(tape.config, profile.restores_mapping)
    target.build(tape.config)
    events: Sequence[Any] = tape.events
    asked = any(event.reads_books for event in events)
    ledger = Ledger(tape.config, profile.per_forward) if asked else None
    divergence = None
    index = -1
    try:
        with patience(world, tape.config):
            for index, event in enumerate(events):
                world.now = index
                divergence = _play(Step(index, event, world, target, ledger=ledger))
                if divergence is not None:
                    break
                if ledger is not None:
                    ledger.apply(event)
            else:
                divergence = _last_look(Step(index, EndForward(), world, target)) if events else None
    except Stuck:
        divergence = hang(index, events[index])
    world.seen["cache_hit"] += target.cache_hits()
    return Verdict(divergence, index + 1, +world.seen)


def _play(step: Step) -> Divergence | None:
    try:
        return _compare(step)
    except PASSED_ON:
        raise
    except BaseException as error:
        return crash(error, step.index, step.event, step.target.adapter)


def _compare(step: Step) -> Divergence | None:
    world = step.world
    event: AllocatorEvent = step.event
    event.perform(step)
    if not step.mapping:
        step.mapping = step.target.raw_mapping()
    if not event.keeps_free_lists:
        step.free = step.target.raw_free()
    if step.grants or step.miscount:
        divergence = _ask(EARLY, step)
        if divergence is not None:
            return divergence
    event.adopt(step)
    if world.group_open and step.free is not None:
        world.full.settle(step.free.full)
        world.swa.settle(step.free.swa)
    divergence = _ask(LATE, step)
    if world.mapping.lenient:
        world.mapping.settle(step.mapping)
    return divergence


def _ask(checks: tuple[Check, ...], step: Step) -> Divergence | None:
    for check in checks:
        divergence = check.run(step)
        if divergence is not None:
            return divergence
    return None


def _last_look(step: Step) -> Divergence | None:
    """Every row of every layer, once more: an event may have touched what it must not."""
    for layer in range(len(step.world.config.layers)):
        divergence = sweep(step, layer)
        if divergence is not None:
            return divergence
    return None
