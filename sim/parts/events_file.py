"""The file given with ``--events``: load it into this process, and look events up.

It is the user's own code, given by name, and it is run: in the worker that plays a tape, and in the process of the
command too, for there tapes are made small, and what `legal`, `draw` and `apply` say decides what a legal tape is.
`call` is asked for in workers only. Each process has at most one file.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType, TracebackType

from ..core.event import Event
from ..core.schema import schema_of
from ..targets.base import TargetError
from .declared import Declared

__all__ = [
    "MODULE", "DeclaredError", "EventsFile", "another_file", "declared", "events_origin", "frames_of", "handed_on",
    "line_in", "load", "loaded", "read", "said",
]  # fmt: skip

MODULE = "_staleloc_events"
"""Name under which the file is imported."""

_KIND = re.compile(r"[a-z][a-z0-9_-]{0,31}")


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
    events: dict[str, type[Declared]]

    def to_json(self) -> dict[str, str]:
        """What another process needs to load the same."""
        return {"file": self.file, "shown": self.path, "sha256": self.sha256}


_loaded: EventsFile | None = None


def loaded() -> EventsFile | None:
    """The file of this process, if it has one."""
    return _loaded


def declared() -> dict[str, type[Declared]]:
    """The events of that file by name; none without one."""
    return _loaded.events if _loaded is not None else {}


def handed_on() -> dict[str, str] | None:
    """What another process needs to `read` the file that this one has, if it has one."""
    return None if _loaded is None else _loaded.to_json()


def read(job: dict[str, str] | None) -> None:
    """Load what another process has loaded; see `handed_on`.

    Raises:
        DeclaredError: as `load`, or the file has changed since.
    """
    if job is None:
        load(None)
        return
    load(job["file"], job["shown"])
    assert _loaded is not None
    if _loaded.sha256 != job["sha256"]:
        raise DeclaredError(f"{job['shown']} was changed while it was in use; run the command again")


def load(path: str | None, shown: str | None = None) -> None:
    """Run a file and keep its events, instead of those of an earlier one; None for none.

    Args:
        shown: the path for people, if that is another.

    Raises:
        DeclaredError: it cannot be read or run, or what it declares cannot be used.
    """
    global _loaded
    _loaded = None
    sys.modules.pop(MODULE, None)
    if path is None:
        return
    shown = shown or path
    try:
        if not Path(path).is_file():
            raise DeclaredError(f"{shown}: no such file; --events takes a Python file that declares events")
        data = Path(path).read_bytes()
    except OSError as error:
        raise DeclaredError(f"{shown} cannot be read ({error.strerror or error})") from None
    module = _run(data, path, shown)
    text = data.decode("utf-8", "replace")
    _loaded = EventsFile(
        shown, str(Path(path).absolute()), hashlib.sha256(data).hexdigest(), text, _events_of(module, shown)
    )


def _run(data: bytes, path: str, shown: str) -> ModuleType:
    module = ModuleType(MODULE)
    module.__file__ = path
    sys.modules[MODULE] = module
    try:
        exec(compile(data, path, "exec", dont_inherit=True), vars(module))
    except SyntaxError as error:
        raise DeclaredError(f"{shown}, line {error.lineno or 1}: {error.msg}; it is no Python") from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        line = line_in(path, error.__traceback__)
        where = f"{shown}, line {line}" if line else shown
        decorated = isinstance(error, TypeError) and ("__setattr__" in str(error) or "non-frozen" in str(error))
        hint = "; a subclass of Declared is a dataclass already and takes no decorator" if decorated else ""
        raise DeclaredError(f"{where}: {said(error)}{hint}") from None
    return module


def _events_of(module: ModuleType, shown: str) -> dict[str, type[Declared]]:
    """The events that a module declares. One whose name begins with ``_`` is a base of others."""
    found: dict[str, type[Declared]] = {}
    for name, value in vars(module).items():
        if not inspect.isclass(value) or not issubclass(value, Declared) or value.__module__ != MODULE:
            continue
        if name.startswith("_") or value in found.values():
            continue
        why = _unusable(value)
        kind = getattr(value, "kind", None)
        if why is None and kind in found:
            why = f"{found[kind].__name__} is called {kind!r} already"
        if why is not None:
            raise DeclaredError(f"{shown}, class {name}: {why}")
        found[value.kind] = value
    if not found:
        raise DeclaredError(f"{shown} declares no event; it takes a subclass of staleloc.sim.parts.declared.Declared")
    return found


def _unusable(event: type[Declared]) -> str | None:
    """What is wrong with an event, or None."""
    from .alphabet import BY_NAME

    kind: object = getattr(event, "kind", None)
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        return f"kind is {kind!r}, not a name of at most 32 small letters, digits, _ and -, as in kind = 'compact'"
    if kind in BY_NAME or kind == "repack":
        return f"there is an event {kind!r} already; give it another kind"
    for name in ("call", "apply"):
        if getattr(event, name) is getattr(Declared, name):
            return f"it has no {name}()"
    for name in ("__init__", "__post_init__"):
        code = getattr(getattr(event, name, None), "__code__", None)
        if code is not None and code.co_filename == sys.modules[MODULE].__file__:
            return f"it has {name}(); parameters are just annotated names, and what they may be is for legal() to say"
    if not inspect.ismethod(event.draw):
        return "draw() must be a @classmethod"
    if type(event.weight) is not int or not 0 < event.weight <= 1000:
        return f"weight is {event.weight!r}; it must be an integer from 1 to 1000"
    taken = {"event", "kind", "weight"}.intersection(field.name for field in fields(event))
    if taken:
        return f"{min(taken)} cannot be a parameter; a line such as kind = 'compact' stands without an annotation"
    try:
        needed = schema_of(event)["required"]
    except (TypeError, NameError, KeyError) as error:
        return str(error)
    if len(needed) > 1 and event.draw.__func__ is Declared.draw.__func__:  # type: ignore[attr-defined]
        return f"it has no draw(), and nothing else says what {needed[1]} should be"
    return None


def said(error: BaseException) -> str:
    """An exception in one line."""
    text = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def frames_of(traceback_: TracebackType | None) -> list[tuple[str, str, int]]:
    """File, module and line of each frame."""
    return [
        (frame.f_code.co_filename, str(frame.f_globals.get("__name__", "")), line)
        for frame, line in traceback.walk_tb(traceback_)
    ]


def line_in(file: str, traceback_: TracebackType | None) -> int | None:
    """The last line of the file that was at work."""
    return next((line for name, _, line in reversed(frames_of(traceback_)) if name == file), None)


def another_file(tape_events: Iterable[Event], provenance: Mapping[str, object] | None) -> str | None:
    """A line for people if a tape was made with a file that had another content than the one that is loaded."""
    made_with = (provenance or {}).get("events")
    now = events_origin(tape_events)
    if _loaded is None or now is None or not isinstance(made_with, dict) or made_with.get("sha256") == now["sha256"]:
        return None
    return f"{_loaded.path} is not, or not any more, the file that the tape was made with"


def events_origin(events: Iterable[Event]) -> dict[str, str] | None:
    """For the provenance of a tape: the file that declares some of its events, by name and hash, if one does."""
    if _loaded is None or not any(isinstance(event, Declared) for event in events):
        return None
    return {"file": Path(_loaded.path).name, "sha256": _loaded.sha256}
