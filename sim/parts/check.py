"""What tells a correct target from one that is not: checks, and exceptions that come out of it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.divergence import Divergence
from ..core.event import Event
from ..core.panics import first_panic
from ..core.text import message
from ..core.timeouts import PASSED_ON
from ..targets.base import V_MARK, Rows, TargetError
from .calls import places

__all__ = ["Check", "Unbuilt", "built", "check", "crash", "holds", "listed", "rule"]

_TOP = __name__.removesuffix(".sim.parts.check")
"""Our package; inside a stand-alone script it has another name."""

_OURS = (f"{_TOP}.models.", f"{_TOP}.sim.parts.")

_Look = Callable[[Any], Divergence | None]


@dataclass(frozen=True)
class Check:
    """One oracle. It reads raw state only, and what the step's forwards read.

    Attributes:
        name: its name in divergences.
        look: from the step to the first divergence, or None. Reports show the first paragraph of its docstring.
        order: checks of whole requests are asked by ascending order; the first to fire names the divergence.
        early: at the allocator level, whether it looks at an allocation before the world takes it over.
        optional: it is made only where `Config.checks` names it.
    """

    name: str
    look: _Look
    order: int = 0
    early: bool = False
    optional: bool = False

    def run(self, step: Any) -> Divergence | None:
        """The first divergence, or None."""
        found = self.look(step)
        return None if found is None else replace(found, check=self.name)


def check(name: str, order: int = 0, early: bool = False, optional: bool = False) -> Callable[[_Look], Check]:
    """Make a check of a function; see `Check`."""
    return lambda look: Check(name, look, order, early, optional)


def rule(check: Check | None, found: Divergence) -> str:
    """What a check asks for, as its docstring says it."""
    if found.kind == "hang":
        return "an end of the step"
    if check is None or found.kind == "crash":
        return "no exception"
    return " ".join((check.look.__doc__ or "").partition("\n\n")[0].split())


def holds(rows: Rows, at: int, tag: int) -> bool:
    """Whether a slot holds the row with a tag, as far as its key and value are shown; tag 0 is an empty slot."""
    return rows.keys[at] == tag and (rows.values is None or rows.values[at] == (tag + V_MARK if tag else 0))


def listed(numbers: Sequence[int]) -> str:
    """Numbers for people."""
    return f"[{' '.join(map(str, numbers))}]"


def crash(error: BaseException, index: int, event: Event, adapter: tuple[str, ...]) -> Divergence:
    """The divergence of class ``crash`` for an exception at an event.

    Args:
        adapter: see `Target.adapter`; the engine's place is more telling than the adapter's.

    Raises:
        TargetError: the harness cannot drive the target.
        Exception: the same one, if no frame of it is the target's.
    """
    raised = _raised(error, adapter)
    what = f"{event.kind} raised {raised.what}"
    why = f"event {{{index}}} is one that a scheduler may ask for; {raised.where}"
    return Divergence("crash", "crash", index, what, why, calls=raised.calls)


class Unbuilt(Exception):
    """The target raised an exception while it built an empty cache.

    Attributes:
        divergence: what that is.
    """

    def __init__(self, divergence: Divergence) -> None:
        super().__init__(divergence.what)
        self.divergence = divergence


def built(target: Any, config: Any) -> None:
    """Let the target build an empty cache.

    Raises:
        Unbuilt: it raised an exception, which is the cause.
        TargetError: the harness cannot drive the target.
        Exception: as it is, if no code of the target's raised it.
    """
    try:
        target.build(config)
    except PASSED_ON:
        raise
    except BaseException as error:
        raised = _raised(error, target.adapter)
        what, why = f"building the cache raised {raised.what}", f"the cache was empty; {raised.where}"
        raise Unbuilt(Divergence("crash", "crash", -1, what, why, calls=raised.calls)) from error


@dataclass(frozen=True)
class _Raised:
    """An exception of the target: what it is, where it was raised, and the call chain to it."""

    what: str
    where: str
    calls: tuple[str, ...]


def _raised(error: BaseException, adapter: tuple[str, ...]) -> _Raised:
    """What the target raised. Raises the error itself if that is not for the target to answer for."""
    frames = [*traceback.walk_tb(error.__traceback__)]
    theirs = [(frame, line) for frame, line in frames if not frame.f_globals["__name__"].startswith(_OURS)]
    if isinstance(error, TargetError) or not theirs:
        raise error
    engine = [place for place in theirs if not place[0].f_globals["__name__"].startswith(adapter)] or theirs
    calls = places(frames, adapter)
    frame, line = next(
        (it for it in reversed(engine) if not it[0].f_globals["__name__"].startswith("torch")), engine[-1]
    )
    where = f"{frame.f_globals['__name__']}, line {line}, in {frame.f_code.co_name}"
    text = message(error).strip().splitlines()
    panic = first_panic()
    if panic is not None:
        calls.append(f"{panic.place} panic")
        text = [panic.message]
    return _Raised(type(error).__name__ + (f": {text[0]}" if text else ""), where, tuple(calls))
