"""The allocator level: each call on the target, then in the world, and every check after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ....models.world import World
from ...core.divergence import Divergence
from ...core.event import Event
from ...core.tape import Tape
from ...core.timeouts import PASSED_ON
from ...targets.base import Profile, Target
from ..check import Check, built, crash
from .checks import CHECKS, check_contents
from .event import AllocatorEvent, Step
from .forwards import EndForward
from .ledger import Ledger

__all__ = ["AllocatorSession", "compare", "last_look"]


class AllocatorSession:
    """A legal tape under way on a target that is driven as `profile` says."""

    def __init__(self, target: Target, tape: Tape, profile: Profile) -> None:
        events: Sequence[Any] = tape.events
        self.world = World(tape.config, profile.restores_mapping)
        built(target, tape.config)
        self._target = target
        asked = any(event.reads_books for event in events)
        self._ledger = Ledger(tape.config, profile.per_forward) if asked else None
        self._last = -1

    def play(self, index: int, event: AllocatorEvent) -> tuple[Event, Divergence | None]:
        """See `drive.Session.play`. Every event of a legal tape applies."""
        self._last = index
        divergence = _play(Step(index, event, self.world, self._target, ledger=self._ledger))
        if divergence is None and self._ledger is not None:
            self._ledger.apply(event)
        return event, divergence

    def finish(self) -> Divergence | None:
        """See `drive.Session.finish`. Every row of every layer: an event may have touched what it must not."""
        if self._last < 0:
            return None
        return last_look(Step(self._last, EndForward(), self.world, self._target))


def _play(step: Step) -> Divergence | None:
    try:
        return compare(step)
    except PASSED_ON:
        raise
    except BaseException as error:
        return crash(error, step.index, step.event, step.target.adapter)


def compare(step: Step, checks: Sequence[Check] = CHECKS) -> Divergence | None:
    """Play a step's event on the target, enter it in the world, and ask each check in turn."""
    world = step.world
    event: AllocatorEvent = step.event
    event.perform(step)
    if not step.mapping:
        step.mapping = step.target.raw_mapping()
    if not event.keeps_free_lists:
        step.free = step.target.raw_free()
    if step.grants or step.miscount:
        divergence = _ask([check for check in checks if check.early], step)
        if divergence is not None:
            return divergence
    event.adopt(step)
    if world.group_open and step.free is not None:
        world.full.settle(step.free.full)
        world.swa.settle(step.free.swa)
    divergence = _ask([check for check in checks if not check.early], step)
    if world.mapping.lenient:
        world.mapping.settle(step.mapping)
    return divergence


def _ask(checks: Iterable[Check], step: Step) -> Divergence | None:
    for check in checks:
        divergence = check.run(step)
        if divergence is not None:
            return divergence
    return None


def last_look(step: Step) -> Divergence | None:
    """Every row of every layer, once more: an event may have touched what it must not."""
    step.touched = range(len(step.world.config.layers))
    return check_contents.run(step)
