"""The tape: a config and a list of events, and the replay file that holds them.

A tape file is data, and nothing in it is evaluated. Loading any file ends soon, with a `Tape` or with one line that
states the fault, its place and the remedy. Each event has its own line, so that a diff of two tapes is readable.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import asdict
from difflib import get_close_matches
from typing import Any

from ...models.config import Config, ConfigError
from ..core.event import Event
from ..core.schema import Schema, event_to_json, fits, listed, schema_of
from ..core.tape import Tape
from ..parts.events_file import BY_NAME
from ..parts.hooks import declared
from .schema import FORMAT, MAX_EVENTS, VERSION, tape_schema

__all__ = ["MAX_BYTES", "JsonError", "TapeError", "dumps", "load", "loads", "parse_json", "to_json"]

MAX_BYTES = 16 << 20
"""Size of a tape file, in bytes."""

MAX_DEPTH = 16
"""Levels of lists and objects in a provenance."""

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class TapeError(ValueError):
    """A text or file that is no tape; the message is one line with the place and the remedy."""


def to_json(tape: Tape) -> dict[str, Any]:
    """The tape as JSON values, valid under ``tape.schema.json``."""
    values: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "config": listed(_config(tape.config)),
        "events": [event_to_json(event) for event in tape.events],
    }
    if tape.provenance is not None:
        values["provenance"] = dict(tape.provenance)
    return values


def _config(config: Config) -> dict[str, object]:
    """The config's fields, without those of the engine level in a tape of the allocator level, without the fields of
    inactive features, and without those of `_LATER` that have their defaults."""
    values = asdict(config)
    left_out = set() if config.level == "engine" else _ENGINE_ONLY
    left_out |= {name for name in _LATER if values[name] == getattr(_PLAIN, name)}
    left_out = left_out.union(*config.unused.values())
    return {name: values[name] for name in values if name not in left_out}


_ENGINE_ONLY = {"level", "host_full_size", "host_swa_size", "write_policy"}

_PLAIN = Config()
_LATER = ("features", "context_len", "checks", "eviction_policy", "priorities", "switches")
"""Fields that older tapes do not have."""


def dumps(tape: Tape) -> str:
    """The text of the tape's file: the same for equal tapes, in ASCII, one event a line.

    Raises TypeError or ValueError if the provenance holds something that is not JSON.
    """
    values = to_json(tape)
    lines = [f'"{name}": {_compact(values[name])}' for name in ("format", "version", "config")]
    events = ",\n".join(map(_compact, values["events"]))
    lines.append(f'"events": [\n{events}\n]' if events else '"events": []')
    if "provenance" in values:
        lines.append('"provenance": ' + json.dumps(values["provenance"], indent=1, sort_keys=True, allow_nan=False))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def load(path: str | os.PathLike[str]) -> Tape:
    """Read a tape file. Raises TapeError for anything but a regular file that holds a tape."""
    name = os.fspath(path)
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for a writer.
        with open(path, "rb", opener=lambda file, flags: os.open(file, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise _error(name, "not a regular file; give the path of a tape file")
            if status.st_size > MAX_BYTES:
                raise _error(name, f"{status.st_size} bytes, and a tape has at most {MAX_BYTES}; {_SHORTEN}")
            data = file.read(MAX_BYTES)
    except OSError as error:
        raise _error(name, f"cannot be read ({error.strerror}); give the path of a tape file") from None
    except ValueError as error:
        if isinstance(error, TapeError):
            raise
        raise _error(name, f"no file name ({error}); give the path of a tape file") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _error(name, f"byte {error.start} is not UTF-8; give a tape file, or get this one again") from None
    return loads(text, name)


def loads(text: str, name: str = "tape") -> Tape:
    """Read the text of a tape file; `name` opens the message of a TapeError."""
    if len(text) > MAX_BYTES:
        raise _error(name, f"{len(text)} characters, and a tape has at most {MAX_BYTES}; {_SHORTEN}")
    try:
        return _tape(parse_json(text))
    except (TapeError, JsonError) as error:
        raise _error(name, str(error)) from None
    except RecursionError:
        raise _error(name, "lists or objects are nested too deeply; give a tape that staleloc wrote") from None


_SHORTEN = "keep the events up to the divergence and drop the others"


def _error(name: str, text: str) -> TapeError:
    return TapeError(f"{name if name and name.isprintable() else repr(name)}: {text}")


def _compact(value: object) -> str:
    return json.dumps(value, allow_nan=False)


def _frozen(value: object) -> Any:
    """The value with tuples for lists, all the way down."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _tape(values: object) -> Tape:
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise TapeError(f'not a tape; one is an object with "format": "{FORMAT}"')
    version = values.get("version")
    if type(version) is int and version > VERSION:
        raise TapeError(f"tape version {version}, and this staleloc reads {VERSION}; install a newer staleloc")
    if type(version) is not int or version < VERSION:
        raise TapeError(f'tape version {short(version)} does not exist; "version" must be {VERSION}')
    events = values.get("events")
    if isinstance(events, list) and len(events) > MAX_EVENTS:
        raise TapeError(f"{len(events)} events, and a tape has at most {MAX_EVENTS}; {_SHORTEN}")
    frame = tape_schema()
    listed = {**frame["properties"]["events"], "items": {}}
    _validate(values, {**frame, "properties": {**frame["properties"], "events": listed}}, "$")
    config = Config(**{key: _frozen(value) for key, value in values["config"].items()})
    try:
        config.check()
    except ConfigError as error:
        raise TapeError(f"$.config: {error}") from None
    provenance = _printable(values.get("provenance"))
    played = tuple(_event(index, item, provenance or {}) for index, item in enumerate(values["events"]))
    return Tape(config, played, provenance)


def _event(index: int, values: Any, provenance: Mapping[str, object]) -> Event:
    where = f"$.events[{index}]"
    try:
        kind = values.get("event") if isinstance(values, dict) else None
        if not isinstance(kind, str):
            raise TapeError(f'{where}: {short(values)} names no event; it must be an object with "event": NAME')
        event = BY_NAME.get(kind) or declared().get(kind)
        if event is None:
            raise TapeError(f"{where}: {_unknown(kind, provenance)}")
        _validate(values, schema_of(event), where, "tape.schema.json" if kind in BY_NAME else "its class")
    except TapeError as error:
        raise TapeError(f"event {index + 1}: {error}") from None
    return event(**{key: _frozen(value) for key, value in values.items() if key != "event"})


def _unknown(kind: str, provenance: Mapping[str, object]) -> str:
    """The message for an unknown event."""
    origin = provenance.get("events")
    file = origin.get("file") if isinstance(origin, dict) else None
    if isinstance(file, str):
        return f"{short(kind)} is declared in a file called {short(file)}; give it: --events {short(file)}"
    known = (*BY_NAME, *declared())
    close = get_close_matches(kind[:64], known)
    hint = f"did you mean {' or '.join(close)}?" if close else "tape.schema.json lists those there are"
    return f"no event is called {short(kind)}; {hint}"


def _validate(values: object, schema: Schema, where: str, source: str = "tape.schema.json") -> None:
    """Raise TapeError for the first schema violation in `values`; `source` is its place for people."""
    if fits(values, schema):
        return
    import jsonschema  # here, since it takes longer than to read a tape, and only a faulty one needs it

    base = jsonschema.Draft202012Validator
    integer = base.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    for error in jsonschema.validators.extend(base, type_checker=integer)(schema).iter_errors(values):
        message = error.message if len(error.message) <= 200 else f"{error.message[:80]} ... {error.message[-100:]}"
        raise TapeError(f"{where}{error.json_path[1:]}: {message}; see {source}")


def _printable(provenance: dict[str, object] | None) -> dict[str, object] | None:
    """A provenance that can be shown on a terminal: control characters and lone surrogates replaced."""

    def clean(value: object, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise TapeError(f"$.provenance: more than {MAX_DEPTH} levels of lists and objects; make it flatter")
        if isinstance(value, str):
            return _UNPRINTABLE.sub("\ufffd", value)
        if isinstance(value, list):
            return [clean(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {clean(key, depth): clean(item, depth + 1) for key, item in value.items()}
        return value

    return None if provenance is None else clean(provenance, 0)


MAX_DIGITS = 40
"""Decimal digits of an integer: room for a seed of 128 bits."""


class JsonError(ValueError):
    """A text that is no JSON; the message states the place and the remedy."""


def parse_json(text: str) -> object:
    """The value of a text.

    Raises:
        JsonError: it is no JSON, or is ambiguous between readers.
    """
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_constant,
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise JsonError(f"{where}: not JSON ({error.msg}); if the file was cut short, get it again") from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, value in pairs:
        if name in values:
            raise JsonError(f"the name {short(name)} occurs twice in one object; remove one")
        values[name] = value
    return values


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise JsonError(f"an integer of {len(digits)} digits; write it with at most {MAX_DIGITS}")
    return int(digits)


def _float(digits: str) -> float:
    if not math.isfinite(value := float(digits)):
        raise JsonError(f"the number {short(digits)} is too large; write a smaller one")
    return value


def _constant(name: str) -> object:
    raise JsonError(f"{name} is not JSON; write a number, or null")


def short(value: object) -> str:
    """A value for a message, not too long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:76]} ..."
