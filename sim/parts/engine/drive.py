"""Play one engine-level tape on a target and judge its raw state after every event."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ....models.engine import EngineWorld
from ...core.divergence import Divergence
from ...core.event import Event
from ...core.tape import Tape
from ...core.timeouts import PASSED_ON, Stuck, hang, patience
from ...core.verdict import Verdict
from ...targets.engine import EngineTarget
from ..crash import crash
from .checks import ENGINE_CHECKS
from .plays import PLAYS
from .scene import scene
from .situations import Noticer
from .step import EngineCheck, EngineStep

__all__ = ["drive_engine", "drive_steps", "judged"]


Step = TypeVar("Step", bound=EngineStep)


def drive_engine(tape: Tape, target: EngineTarget) -> Verdict:
    """Play a tape. The first divergence ends it.

    Raises:
        TargetError: the harness cannot drive this target; nothing was found out.
    """
    world = EngineWorld(tape.config)
    noticer = Noticer(world)
    target.build(tape.config)

    def play(index: int, event: Event) -> tuple[EngineStep, Divergence | None]:
        step = EngineStep(index, event, world, target)
        return step, judged(step, PLAYS, ENGINE_CHECKS, noticer.look)

    return drive_steps(tape, world, play)


def drive_steps(
    tape: Tape, world: EngineWorld, play: Callable[[int, Event], tuple[EngineStep, Divergence | None]]
) -> Verdict:
    """The verdict on a tape of which `play` plays and judges one event."""
    divergence = None
    index = -1
    effect = []
    try:
        with patience(world, tape.config):
            for index, event in enumerate(tape.events):
                world.now = index
                step, divergence = play(index, event)
                if step.effect is not None:
                    effect.append(step.effect)
                if divergence is not None:
                    break
                if step.effect is not None:
                    world.mapping.follow(index, step.mapping)
    except Stuck:
        divergence = hang(index, tape.events[index])
        effect.append(tape.events[index])
    events = index + 1
    taken = tuple(effect)
    return Verdict(divergence, events, +world.seen, taken if taken != tape.events else None, events - len(taken))


def _with_scene(step: EngineStep, check: EngineCheck, found: Divergence) -> Divergence:
    """A divergence with the state for people; without if that is so broken that it cannot be looked at, which is no
    other bug."""
    try:
        return replace(found, state=scene(step, check, found))
    except Exception:
        return found


def _crash(step: EngineStep, error: BaseException) -> Divergence:
    return crash(error, step.index, step.event)


def judged(
    step: Step,
    plays: Mapping[type[Event], Callable[[Step, Any], bool]],
    checks: Sequence[EngineCheck],
    look: Callable[[Step], None],
    failure: Callable[[Step, BaseException], Divergence] = _crash,
) -> Divergence | None:
    """Play a step's event, if it applies, and ask each check in turn.

    Args:
        plays: event type -> play it, if it applies.
        look: counts the situations that the event brought about.
        failure: what an exception out of the target is.
    """
    step.effect = step.event
    try:
        if not plays[type(step.event)](step, step.event):
            step.effect = None
            return None
        look(step)
        for check in checks:
            divergence = check.run(step)
            if divergence is not None:
                return _with_scene(step, check, divergence)
    except PASSED_ON:
        raise
    except BaseException as error:
        return failure(step, error)
    return None
