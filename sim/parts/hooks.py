"""The functions of a file for ``--events``: how they are asked, and how their mistakes are told from a target's."""

from __future__ import annotations

import dis
import hashlib
import inspect
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, ClassVar, Self, TypeVar

from ..core.event import Event, without_one
from ..core.mark import Mark
from ..core.schema import MAX_INTEGER, event_to_json, fits, schema_of
from ..core.text import message
from ..core.timeouts import Stuck
from ..declared import Books, Cache, Declared, Model
from ..targets.base import TargetError
from .confined import Refused, refused

__all__ = [
    "CALL", "MODULE", "PATIENCE", "WAITING_SECONDS", "DeclaredError", "EventsFile", "FromFile", "check_drawn",
    "declared", "fingerprint", "guarded", "is_interrupt", "joined", "keep", "line_in", "loaded", "mistake", "running",
    "said", "show_in", "watched",
]  # fmt: skip

MODULE = "_staleloc_events"
"""Name under which the file is imported."""

PATIENCE = 10.0
"""Seconds of processor time that it may take to draw a tape, or to see whether one is legal."""

WAITING_SECONDS = 60.0
"""Seconds that one call of it may take, whatever it does."""

CALL = ".call()"
"""How the name of the function ends that calls the engine, which may then be at fault."""

T = TypeVar("T")


class DeclaredError(TargetError):
    """The file for ``--events`` cannot be used; the message is one line that says where and why."""


@dataclass(frozen=True)
class EventsFile:
    """A file that is loaded.

    Attributes:
        path: as it was given, for people.
        file: the same, absolute.
        sha256: of its bytes.
        events: its events by name, in the order in which they stand in it.
    """

    path: str
    file: str
    sha256: str
    text: str
    events: dict[str, type[FromFile]]

    def to_json(self) -> dict[str, str]:
        """What another process needs to load the same."""
        return {"file": self.file, "shown": self.path, "sha256": self.sha256}


_loaded: EventsFile | None = None
_mark: Mark | None = None


def loaded() -> EventsFile | None:
    """The file of this process, if it has one."""
    return _loaded


def declared(level: str | None = None) -> dict[str, type[FromFile]]:
    """The events of that file by name, of one level if it is given; none without a file."""
    events = _loaded.events if _loaded is not None else {}
    return {kind: event for kind, event in events.items() if level in (None, event.level)}


def keep(file: EventsFile | None) -> None:
    """From now on this is the file of this process."""
    global _loaded
    _loaded = file


def guarded(event: FromFile | type[FromFile], name: str, work: Callable[..., T], *arguments: Any) -> T:
    """What a function of the file comes to.

    Raises:
        DeclaredError: it failed, and not in the engine's own code; what the engine raises comes out as it is.
    """
    owner = event if isinstance(event, type) else type(event)
    with running(f"{_path()}, {owner.__name__}.{name}()"):
        try:
            result = work(*arguments)
        except DeclaredError:
            raise
        except BaseException as error:
            file = sys.modules[owner.__module__].__file__ or ""
            engine = name == "call" and not isinstance(error, SystemExit) and _in_engine(file, error.__traceback__)
            if engine or is_interrupt(file, error):
                raise
            raise _mistake(event, name, mistake(error), line_in(file, error.__traceback__)) from None
        if (call := refused()) is not None:
            raise _mistake(event, name, call)
        return result


def show_in(mark: Mark | None) -> None:
    """From now on show in this mark what of the file runs."""
    global _mark
    _mark = mark


@contextmanager
def running(name: str) -> Iterator[None]:
    """Show that this part of the file runs. A copy of the process that it makes ends with it."""
    process = os.getpid()
    before = "" if _mark is None else _mark.put(name)
    try:
        yield
    finally:
        if os.getpid() != process:
            os._exit(2)
        refused()
        if _mark is not None:
            _mark.put(before)


def mistake(error: BaseException) -> str:
    """What the file did, in one line."""
    if isinstance(error, _Endless | Stuck):
        return "it does not return"
    return str(error) if isinstance(error, Refused) else said(error)


def is_interrupt(file: str, error: BaseException) -> bool:
    """Whether the user has pressed Ctrl-C; the file may raise the same exception."""
    if not isinstance(error, KeyboardInterrupt):
        return False
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or last.tb_frame.f_code.co_filename != file:
        return True
    return last.tb_frame.f_code.co_code[last.tb_lasti] != dis.opmap["RAISE_VARARGS"]


def _path() -> str:
    file = loaded()
    return file.path if file is not None else MODULE


def _mistake(event: FromFile | type[FromFile], name: str, what: str, line: int | None = None) -> DeclaredError:
    owner = event if isinstance(event, type) else type(event)
    where = f", line {line}" if line else ""
    return DeclaredError(f"{_path()}{where}, {owner.__name__}.{name}(): {what}")


def _in_engine(file: str, traceback_: TracebackType | None) -> bool:
    """Whether code that the file called, and that is neither ours nor of a library, was at work."""
    frames = _frames_of(traceback_)
    last = max((number for number, (name, _, _) in enumerate(frames) if name == file), default=-1)
    ours = (__name__, Cache.__module__, Refused.__module__, Stuck.__module__)
    tools = sys.stdlib_module_names | {"torch"}
    return any(module not in ours and module.partition(".")[0] not in tools for _, module, _ in frames[last + 1 :])


def said(error: BaseException) -> str:
    """An exception in one line."""
    text = " ".join(message(error).split())[:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _frames_of(traceback_: TracebackType | None) -> list[tuple[str, str, int]]:
    """File, module and line of each frame."""
    return [
        (frame.f_code.co_filename, str(frame.f_globals.get("__name__", "")), line)
        for frame, line in traceback.walk_tb(traceback_)
    ]


def line_in(file: str, traceback_: TracebackType | None) -> int | None:
    """The last line of the file that was at work."""
    return next((line for name, _, line in reversed(_frames_of(traceback_)) if name == file), None)


@dataclass(frozen=True)
class FromFile(Event):
    """An event that a file declares, as the harness sees it: what it has beside its class in the file.

    Attributes:
        own: its class in the file, of which it is a subclass.
        level: the level of the tapes that it belongs to.
    """

    own: ClassVar[type[Declared]]
    level: ClassVar[str]

    @classmethod
    def drawn(cls, choices: Any, books: Books) -> Self | None:
        """An event that its file draws."""
        drawn = guarded(cls, "draw", cls.own.draw.__func__, cls, choices, books)  # type: ignore[attr-defined]
        if type(drawn) is cls.own:
            drawn = cls(**drawn.arguments())
        if drawn is None:
            return None
        if type(drawn) is not cls:
            raise _mistake(cls, "draw", f"it returned {drawn!r}, which is neither a {cls.__name__} nor None")
        if not fits(event_to_json(drawn), schema_of(cls)):
            raise _mistake(cls, "draw", f"{drawn!r} does not fit its parameters; numbers are 0 to {MAX_INTEGER}")
        return drawn

    def refusal(self, books: Books) -> str | None:
        """Why its file says that it is not legal now, or None."""
        legal = guarded(self, "legal", self.own.legal, self, books)
        if type(legal) is not bool:
            raise _mistake(self, "legal", f"it returned {legal!r}, which is neither True nor False")
        return None if legal else f"{type(self).__name__}.legal() says that it may not be done now"

    def act(self, cache: Cache) -> None:
        """Do it to the real cache."""
        guarded(self, "call", self.own.call, self, cache)

    def told(self, model: Model) -> list[tuple[str, dict[str, int]]]:
        """What its file says that it means, in words of `Model`."""
        guarded(self, "apply", self.own.apply, self, model)
        return model.said

    def lacks(self, profile: Any) -> str | None:
        return None if profile.level == self.level else f"it is declared for tapes of the {self.level} level"

    def say(self, books: Any) -> str:
        """The first line of its docstring, and its fields."""
        said = (inspect.getdoc(type(self)) or "").partition("\n")[0].strip().rstrip(".")
        return ": ".join(part for part in (said if said.isprintable() else "", super().say(books)) if part)

    def simpler(self) -> Iterator[Event]:
        """Each number or list becomes less; what is too little for its file is dropped when it is repaired."""
        values = self.arguments()
        if all(type(values.get(name)) is int for name in ("request", "start", "stop")):
            yield from self.shorter_spans()
        for name, value in values.items():
            if type(value) is int:
                yield from self.fewer(**{name: 0})
            elif value is True:
                yield self.changed(**{name: False})
            elif isinstance(value, tuple):
                yield from (self.changed(**{name: items}) for items in without_one(value))


def joined(own: type[Declared], harness: type[FromFile]) -> type[FromFile]:
    """A class of the file together with what the harness does with its events."""
    names = {"own": own, "__module__": own.__module__, "__doc__": own.__doc__, "__qualname__": own.__qualname__}
    return type(own.__name__, (own, harness), names)


@contextmanager
def watched() -> Iterator[None]:
    """In a worker: notice a function of the file that does not come back while a tape is drawn or judged legal.

    Raises:
        DeclaredError: it has used up the processor for `PATIENCE` seconds.
    """
    if loaded() is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    what = f"{_path()}: draw(), legal() or apply() does not return"

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise _Endless

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        yield
    except _Endless:
        raise DeclaredError(what) from None
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
            f"{_path()}: the same seed gave two different tapes; draw(), legal() and apply() may use only "
            "their arguments"
        )
