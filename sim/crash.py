"""Crashes: an exception that came out of a target is a divergence; one of our own must not pass for it."""

from __future__ import annotations

import traceback

from staleloc.sim.divergence import Divergence
from staleloc.sim.events import Event
from staleloc.sim.targets.base import TargetError

__all__ = ["crash"]

_OURS = (
    "staleloc.models.", "staleloc.sim.drive", "staleloc.sim.perform", "staleloc.sim.checks.", "staleloc.sim.engine.",
)  # fmt: skip


def crash(error: Exception, index: int, event: Event) -> Divergence:
    """The divergence of class ``crash`` for an exception at an event.

    Raises:
        TargetError: the harness cannot drive the target.
        Exception: the same one, if no frame of it is the target's.
    """
    frames = traceback.walk_tb(error.__traceback__)
    if isinstance(error, TargetError) or all(frame.f_globals["__name__"].startswith(_OURS) for frame, _ in frames):
        raise error
    text = str(error).strip().splitlines()
    detail = f": {text[0]}" if text else ""
    return Divergence("crash", "crash", index, f"{event.kind} raised {type(error).__name__}{detail}")
