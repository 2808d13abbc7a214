"""Crashes: an exception that came out of a target is a divergence; one of our own must not pass for it."""

from __future__ import annotations

import traceback

from ..core.divergence import Divergence
from ..core.event import Event
from ..targets.base import TargetError

__all__ = ["crash"]

_TOP = __name__.removesuffix(".sim.parts.crash")
"""Our package; inside a stand-alone script it has another name."""

_OURS = (f"{_TOP}.models.", f"{_TOP}.sim.parts.")


def crash(error: BaseException, index: int, event: Event, adapter: tuple[str, ...]) -> Divergence:
    """The divergence of class ``crash`` for an exception at an event.

    Args:
        adapter: see `Target.adapter`; the engine's place is more telling than the adapter's.

    Raises:
        TargetError: the harness cannot drive the target.
        Exception: the same one, if no frame of it is the target's.
    """
    frames = [*traceback.walk_tb(error.__traceback__)]
    theirs = [(frame, line) for frame, line in frames if not frame.f_globals["__name__"].startswith(_OURS)]
    if isinstance(error, TargetError) or not theirs:
        raise error
    engine = [place for place in theirs if not place[0].f_globals["__name__"].startswith(adapter)] or theirs
    frame, line = next(
        (it for it in reversed(engine) if not it[0].f_globals["__name__"].startswith("torch")), engine[-1]
    )
    where = f"{frame.f_globals['__name__']}, line {line}, in {frame.f_code.co_name}"
    text = str(error).strip().splitlines()
    detail = f": {text[0]}" if text else ""
    what = f"{event.kind} raised {type(error).__name__}{detail}"
    return Divergence("crash", "crash", index, what, f"event {{{index}}} is one that a scheduler may ask for; {where}")
