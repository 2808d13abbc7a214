"""Play one tape on a target, and compare after every event. The first divergence ends the tape.

verdict = play_tape(tape, target, profile)
verdict.divergence    # None, or the first difference
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol

from ..core import panics
from ..core.divergence import Divergence
from ..core.event import Event
from ..core.tape import Tape, Verdict
from ..core.timeouts import Stuck, hang, patience
from ..targets.base import Profile
from .allocator.session import AllocatorSession
from .registry import parts_of
from .session import EngineSession

__all__ = ["Session", "drive", "drive_engine", "drive_session", "play_tape"]


class _World(Protocol):
    now: int
    seen: Counter[str]


class Session(Protocol):
    """A tape under way: a world beside a target."""

    @property
    def world(self) -> _World:
        """What the target is compared with."""

    def play(self, index: int, event: Any) -> tuple[Event | None, Divergence | None]:
        """Play an event, and compare. The event as it took effect, None if it did not apply; the first difference."""

    def finish(self) -> Divergence | None:
        """Compare once more at the end of a tape without a difference."""


def play_tape(tape: Tape, target: Any, profile: Profile) -> Verdict:
    """Play a tape on a target that is driven as `profile` says.

    Raises:
        TargetError: the harness cannot drive this target; nothing was found out.
    """
    return drive_engine(tape, target) if profile.level == "engine" else drive(tape, target, profile)


def drive(tape: Tape, target: Any, profile: Profile) -> Verdict:
    """Play a legal tape of the allocator level. Raises as `play_tape`."""
    verdict = drive_session(tape, AllocatorSession(target, tape, profile))
    verdict.seen["cache_hit"] += target.cache_hits()
    return Verdict(verdict.divergence, verdict.events, +verdict.seen)


def drive_engine(tape: Tape, target: Any) -> Verdict:
    """Play a tape of whole requests. Raises as `play_tape`."""
    return drive_session(tape, EngineSession(target, tape.config, parts_of(tape.config)))


def drive_session(tape: Tape, session: Session) -> Verdict:
    """Play a tape in a session that has just begun. Raises as `play_tape`."""
    panics.begin()
    world = session.world
    divergence = None
    index = -1
    effect = []
    try:
        with patience(world, tape.config):
            for index, event in enumerate(tape.events):
                world.now = index
                taken, divergence = session.play(index, event)
                if taken is not None:
                    effect.append(taken)
                if divergence is not None:
                    break
            else:
                divergence = session.finish()
    except Stuck:
        divergence = hang(index, tape.events[index])
        effect.append(tape.events[index])
    events = index + 1
    took = tuple(effect)
    return Verdict(divergence, events, +world.seen, took if took != tape.events else None, events - len(took))
