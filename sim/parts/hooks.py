"""What the functions of a file for ``--events`` are asked, and how their mistakes are told from a target's."""

from __future__ import annotations

import hashlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, TypeVar

from ..core.event import Event
from ..core.schema import MAX_INTEGER, event_to_json, fits, schema_of
from .declared import Books, Declared, Model
from .events_file import MODULE, DeclaredError, frames_of, line_in, loaded, said

__all__ = ["check_drawn", "draw", "fingerprint", "guarded", "meaning", "refusal", "watched"]

PATIENCE = 10.0
"""Seconds of processor time that it may take to draw a tape, or to see whether one is legal."""

T = TypeVar("T")


def guarded(event: Declared | type[Declared], name: str, work: Callable[..., T], *arguments: Any) -> T:
    """What a function of the file comes to.

    Raises:
        DeclaredError: it failed, and not in the engine's own code; what the engine raises comes out as it is.
    """
    try:
        return work(*arguments)
    except DeclaredError:
        raise
    except (Exception, SystemExit) as error:
        file = sys.modules[MODULE].__file__ or ""
        if name == "call" and isinstance(error, Exception) and _in_engine(file, error.__traceback__):
            raise
        line = line_in(file, error.__traceback__)
        raise _mistake(event, name, said(error), line) from None


def _path() -> str:
    file = loaded()
    return file.path if file is not None else MODULE


def _mistake(event: Declared | type[Declared], name: str, what: str, line: int | None = None) -> DeclaredError:
    owner = event if isinstance(event, type) else type(event)
    where = f", line {line}" if line else ""
    return DeclaredError(f"{_path()}{where}, {owner.__name__}.{name}(): {what}")


def _in_engine(file: str, traceback_: TracebackType | None) -> bool:
    """Whether code that the file called, and that is neither ours nor torch's, was at work."""
    frames = frames_of(traceback_)
    last = max((number for number, (name, _, _) in enumerate(frames) if name == file), default=-1)
    ours = (__name__, f"{__package__}.declared")
    return any(module not in ours and module.partition(".")[0] != "torch" for _, module, _ in frames[last + 1 :])


def draw(event: type[Declared], choices: Any, ledger: Any) -> Declared | None:
    """An event that its file draws."""
    drawn = guarded(event, "draw", event.draw, choices, Books(ledger))
    if drawn is None:
        return None
    if type(drawn) is not event:
        raise _mistake(event, "draw", f"it returned {drawn!r}, which is neither a {event.__name__} nor None")
    if not fits(event_to_json(drawn), schema_of(event)):
        raise _mistake(event, "draw", f"{drawn!r} is not what its parameters are; numbers are 0 to {MAX_INTEGER}")
    return drawn


def refusal(event: Declared, ledger: Any) -> str | None:
    """Why its file says that an event is not legal now, or None."""
    legal = guarded(event, "legal", event.legal, Books(ledger))
    if type(legal) is not bool:
        raise _mistake(event, "legal", f"it returned {legal!r}, which is neither True nor False")
    return None if legal else f"{type(event).__name__}.legal() says that it may not be done now"


def meaning(event: Declared, ledger: Any) -> Sequence[Event]:
    """What an event means, in the words of `Model`."""
    model = Model(ledger)
    guarded(event, "apply", event.apply, model)
    return model.parts


@contextmanager
def watched() -> Iterator[None]:
    """In a worker: notice a function of the file that does not come back while a tape is drawn or judged legal.

    Raises:
        DeclaredError: it has used up the processor for `PATIENCE` seconds.
    """
    if loaded() is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    message = f"{_path()}: draw(), legal() or apply() does not come back"

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise _Endless

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        yield
    except _Endless:
        raise DeclaredError(message) from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


class _Endless(BaseException):
    """No `Exception`: a function that catches those must not go on."""


def fingerprint(tape: Any) -> str:
    """What tells one drawn tape from another."""
    return hashlib.sha256(repr(tape).encode()).hexdigest()


def check_drawn(tape: Any, drawn: str | None) -> None:
    """Raise DeclaredError unless a tape that was drawn again is the one that a worker drew, if that was noted."""
    if drawn is not None and fingerprint(tape) != drawn:
        raise DeclaredError(
            f"{_path()}: the same seed gives one tape now and another then; draw(), legal() and apply() may ask "
            "nothing but what they are given"
        )
