"""Every event by name, and the file given with ``--events``: load it into this process, and look its events up.

It is the user's own code, given by name, and it is run: in the worker that plays a tape, and in the process of the
command too, for there tapes are made small, and what `legal`, `draw` and `apply` say decides what a legal tape is.
`call` is asked for in workers only. Each process has at most one file.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields
from importlib.util import decode_source
from pathlib import Path
from types import CodeType, ModuleType

from ..core.event import Event
from ..core.mark import Mark
from ..core.schema import schema_of
from ..declared import Declared
from .allocator.declared import DeclaredCall
from .allocator.events import EVENTS
from .confined import confine, refused
from .engine.declared import DeclaredStep
from .hooks import (
    MODULE,
    DeclaredError,
    EventsFile,
    FromFile,
    is_interrupt,
    joined,
    keep,
    line_in,
    loaded,
    mistake,
    running,
    show_in,
)
from .registry import PARTS

__all__ = ["ALPHABET", "BY_NAME", "another_file", "events_origin", "handed_on", "load", "read"]

ALPHABET: tuple[type[Event], ...] = (
    *EVENTS,
    *(event for part in PARTS for event in part.events),
)
"""Event types, in the order in which the documentation lists them."""

BY_NAME: dict[str, type[Event]] = {event.kind: event for event in ALPHABET}
"""Event name in a tape -> event type."""

_HARNESS: dict[str, type[FromFile]] = {event.level: event for event in (DeclaredCall, DeclaredStep)}
"""Level -> what the harness does with the events that a file declares for it."""

_OPEN = frozenset({"kind", "weight", "level", "words", "draw", "legal", "call", "apply"})
"""Names of a class that are the file's to define."""

_KIND = re.compile(r"[a-z][a-z0-9_-]{0,31}")


def handed_on() -> dict[str, str] | None:
    """What another process needs to `read` the file that this one has, if it has one."""
    file = loaded()
    return None if file is None else file.to_json()


def read(job: dict[str, str] | None, mark: str | None = None) -> None:
    """Load what another process has loaded; see `handed_on`.

    Args:
        mark: a file in which that process sees what of it runs.

    Raises:
        DeclaredError: as `load`, or the file has changed since.
    """
    if job is None:
        load(None)
        return
    if mark is not None:
        show_in(Mark.in_file(mark))
    load(job["file"], job["shown"])
    file = loaded()
    assert file is not None
    if file.sha256 != job["sha256"]:
        raise DeclaredError(f"{job['shown']} was changed while it was in use; run the command again")


def load(path: str | None, shown: str | None = None) -> None:
    """Run a file and keep its events, instead of those of an earlier one; None for none.

    Args:
        shown: the path for people, if that is another.

    Raises:
        DeclaredError: it cannot be read or run, or what it declares cannot be used.
    """
    keep(None)
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
    text = decode_source(data)
    file = str(Path(path).absolute())
    keep(EventsFile(shown, file, hashlib.sha256(data).hexdigest(), text, _events_of(module, shown)))


def _run(data: bytes, path: str, shown: str) -> ModuleType:
    module = ModuleType(MODULE)
    module.__file__ = path
    sys.modules[MODULE] = module
    confine(MODULE)
    with running(f"{shown}, as it is imported"):
        try:
            exec(_compiled(data, path, shown), vars(module))
        except DeclaredError:
            raise
        except BaseException as error:
            if is_interrupt(path, error):
                raise
            line = line_in(path, error.__traceback__)
            where = f"{shown}, line {line}" if line else shown
            what = mistake(error)
            decorated = isinstance(error, TypeError) and ("__setattr__" in what or "non-frozen" in what)
            hint = "; a subclass of Declared is a dataclass already and takes no decorator" if decorated else ""
            raise DeclaredError(f"{where}: {what}{hint}") from None
        if (call := refused()) is not None:
            raise DeclaredError(f"{shown}, as it is imported: {call}")
    return module


def _compiled(data: bytes, path: str, shown: str) -> CodeType:
    try:
        return compile(data, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise DeclaredError(f"{shown}, line {error.lineno or 1}: {error.msg}; it is not valid Python") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise DeclaredError(f"{shown}: {error}; it is not valid Python") from None


def _events_of(module: ModuleType, shown: str) -> dict[str, type[FromFile]]:
    """The events that a module declares. One whose name begins with ``_`` is a base of others."""
    found: dict[str, type[FromFile]] = {}
    for name, value in vars(module).items():
        if not inspect.isclass(value) or not issubclass(value, Declared) or value.__module__ != MODULE:
            continue
        if name.startswith("_") or value in (event.own for event in found.values()):
            continue
        why = _unusable(value)
        kind = getattr(value, "kind", None)
        if why is None and kind in found:
            why = f"{found[kind].__name__} is called {kind!r} already"
        if why is not None:
            raise DeclaredError(f"{shown}, class {name}: {why}")
        found[value.kind] = joined(value, _HARNESS[value.level])
    if not found:
        raise DeclaredError(f"{shown} declares no event: a subclass of staleloc.sim.declared.Declared is needed")
    return found


def _unusable(event: type[Declared]) -> str | None:
    """What is wrong with an event, or None."""
    kind: object = getattr(event, "kind", None)
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        return f"kind is {kind!r}, not a name of at most 32 small letters, digits, _ and -, as in kind = 'compact'"
    if kind in BY_NAME or kind == "repack":
        return f"there is an event {kind!r} already; give it another kind"
    if event.level not in _HARNESS:
        return f"level is {event.level!r}; it must be {' or '.join(map(repr, _HARNESS))}"
    for name in ("call", "apply") if event.level == DeclaredCall.level else ("call",):
        if getattr(event, name) is getattr(Declared, name):
            return f"it has no {name}()"
    for name in ("__init__", "__post_init__"):
        code = getattr(getattr(event, name, None), "__code__", None)
        if code is not None and code.co_filename == sys.modules[MODULE].__file__:
            return f"it has {name}(); parameters are annotated names only; legal() decides which values they may have"
    if not inspect.ismethod(event.draw):
        return "draw() must be a @classmethod"
    if type(event.weight) is not int or not 0 < event.weight <= 1000:
        return f"weight is {event.weight!r}; it must be an integer from 1 to 1000"
    taken = {"event", "kind", "level", "weight"}.intersection(field.name for field in fields(event))
    if taken:
        return f"{min(taken)} cannot be a parameter; a line such as kind = 'compact' stands without an annotation"
    own = {name for base in event.mro()[: event.mro().index(Declared)] for name in vars(base)}
    own.update(field.name for field in fields(event))
    taken = own.intersection(dir(_HARNESS[event.level])) - _OPEN
    taken = {name for name in taken if not name.startswith("__")}
    if taken:
        return f"{min(taken)} is already used by staleloc; choose another name"
    try:
        needed = schema_of(event)["required"]
    except (TypeError, NameError, KeyError) as error:
        return str(error)
    if len(needed) > 1 and event.draw.__func__ is Declared.draw.__func__:  # type: ignore[attr-defined]
        return f"it has no draw(), which must choose a value for {needed[1]}"
    return None


def another_file(tape_events: Iterable[Event], provenance: Mapping[str, object] | None) -> str | None:
    """A line for people if a tape was made with a file that had another content than the one that is loaded."""
    made_with = (provenance or {}).get("events")
    file, now = loaded(), events_origin(tape_events)
    if file is None or now is None or not isinstance(made_with, dict) or made_with.get("sha256") == now["sha256"]:
        return None
    return f"{file.path} is not the file that the tape was made with, or has changed since"


def events_origin(events: Iterable[Event]) -> dict[str, str] | None:
    """For the provenance of a tape: the file that declares some of its events, by name and hash, if one does."""
    file = loaded()
    if file is None or not any(event.kind in file.events for event in events):
        return None
    return {"file": Path(file.path).name, "sha256": file.sha256}
