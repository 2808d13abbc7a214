"""Play one tape on a target, and compare after every event. The first divergence ends the tape."""

from __future__ import annotations

from typing import Any

from ..core.tape import Tape
from ..core.timeouts import Stuck, hang, patience
from ..core.verdict import Verdict
from ..targets.base import Profile
from .allocator.drive import drive
from .registry import parts_of
from .session import Session

__all__ = ["drive_engine", "play_tape"]


def play_tape(tape: Tape, target: Any, profile: Profile) -> Verdict:
    """Play a tape on a target that is driven as `profile` says.

    Raises:
        TargetError: the harness cannot drive this target; nothing was found out.
    """
    return drive_engine(tape, target) if profile.level == "engine" else drive(tape, target, profile)


def drive_engine(tape: Tape, target: Any) -> Verdict:
    """Play a tape of whole requests.

    Raises:
        TargetError: the harness cannot drive this target; nothing was found out.
    """
    session = Session(target, tape.config, parts_of(tape.config))
    world = session.world
    divergence = None
    index = -1
    effect = []
    try:
        with patience(world, tape.config):
            for index, event in enumerate(tape.events):
                world.now = index
                step, divergence = session.play(index, event)
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
