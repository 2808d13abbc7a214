"""The two JSON formats as JSON Schema, built from the dataclasses so that they cannot drift from them.

``python -m staleloc.sim.schema`` writes ``tape.schema.json`` and ``summary.schema.json`` beside this file, and
``matrix/matrix.schema.json``.
"""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import MISSING, Field, fields
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from staleloc.models.config import SPEC_VERSIONS, Config
from staleloc.sim.alphabet import ALPHABET
from staleloc.sim.divergence import CLASSES
from staleloc.sim.events import SOURCES, Event
from staleloc.sim.targets.graphs import RUNNERS

__all__ = [
    "FORMAT", "MAX_EVENTS", "VERSION", "Schema",
    "dumps", "event_schemas", "fits", "main", "schema_of", "summary_schema", "tape_schema",
]  # fmt: skip

Schema = dict[str, Any]
"""A JSON Schema object, draft 2020-12."""

FORMAT = "staleloc-tape"
VERSION = 1

MAX_EVENTS = 100_000
"""Events of one tape."""

MAX_INTEGER = 1 << 20
"""Largest size, position, count or number in a tape."""

MAX_ITEMS = 4096
"""Requests, spans or layers in one list of a tape."""

WORDS: dict[str, tuple[str, ...]] = {
    "pool": ("hybrid", "dsv4"),
    "layers": ("full", "swa"),
    "storage": ("fresh", "reused", "view"),
    "source": SOURCES,
    "runner": RUNNERS,
    "spec_version": SPEC_VERSIONS,
}
"""What a string field of a config or an event may say; one that is not listed here holds any lower-case name."""

# `$` would let a final newline pass in Python; this end of string means the same in every regex dialect.
NAME = r"^[a-z][a-z0-9_-]{0,31}(?![\s\S])"

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def _value(hint: Any, name: str) -> Schema:
    """The schema of one annotated value; TypeError for an annotation a tape cannot hold."""
    if hint is bool:
        return {"type": "boolean"}
    if hint is int:
        return {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER}
    if hint is str:
        return {"enum": list(WORDS[name])} if name in WORDS else {"type": "string", "pattern": NAME}
    if get_origin(hint) is tuple:
        parts = get_args(hint)
        if parts[-1] is Ellipsis:
            return {"type": "array", "maxItems": MAX_ITEMS, "items": _value(parts[0], name)}
        items = [_value(part, name) for part in parts]
        return {"type": "array", "minItems": len(items), "maxItems": len(items), "prefixItems": items}
    raise TypeError(f"field {name!r}: a tape cannot hold {hint}; use int, bool, str or a tuple of them")


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _object(cls: type, first: Schema) -> Schema:
    """The schema of a dataclass: fields with a default may be left out, others may not, and nothing else is known."""
    hints = get_type_hints(cls)
    known = fields(cls)
    return {
        "description": (inspect.getdoc(cls) or "").partition("\n")[0],
        "type": "object",
        "properties": first | {field.name: _value(hints[field.name], field.name) for field in known},
        "required": [*first, *(field.name for field in known if _required(field))],
        "additionalProperties": False,
    }


_KNOWN: dict[type[Event], Schema] = {}


def schema_of(event: type[Event]) -> Schema:
    """The schema of such an event in a tape; made once."""
    if event not in _KNOWN:
        _KNOWN[event] = _object(event, {"event": {"const": event.kind}})
    return _KNOWN[event]


@cache
def event_schemas() -> dict[str, Schema]:
    """Event name -> its schema, of all that are not declared in somebody's file."""
    return {event.kind: schema_of(event) for event in ALPHABET}


def _declared() -> Schema:
    """What is known of an event that a file declares: its name is no other's, and its fields are plain values."""
    number = _value(int, "")
    word = {"type": "string", "pattern": NAME}
    values = [number, {"type": "boolean"}, word, {"type": "array", "maxItems": MAX_ITEMS}]
    return {
        "description": "An event that a file given with --events declares.",
        "type": "object",
        "properties": {"event": {**word, "not": {"enum": list(event_schemas())}}},
        "required": ["event"],
        "additionalProperties": {"oneOf": values},
    }


@cache
def tape_schema() -> Schema:
    """The schema of a tape file."""
    events = event_schemas()
    return {
        "$schema": DIALECT,
        "$id": f"urn:staleloc:tape:{VERSION}",
        "title": "staleloc tape",
        "description": "A config and a list of events: what is played on the model and on the target.",
        "type": "object",
        "properties": {
            "format": {"const": FORMAT},
            "version": {"const": VERSION},
            "config": _object(Config, {}),
            "events": {
                "type": "array",
                "maxItems": MAX_EVENTS,
                "items": {"oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in (*events, "declared-event")]},
            },
            "provenance": {
                "description": "Where the tape comes from, for people and reports only; nothing is decided by it.",
                "type": "object",
            },
        },
        "required": ["format", "version", "config", "events"],
        "additionalProperties": False,
        "if": {"properties": {"events": {"contains": {"$ref": "#/$defs/declared-event"}}}},
        "then": {"required": ["provenance"], "properties": {"provenance": {"required": ["events"]}}},
        "$defs": {**events, "declared-event": _declared()},
    }


def _count(description: str) -> Schema:
    return {"description": description, "type": "integer", "minimum": 0}


def _closed(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


@cache
def summary_schema() -> Schema:
    """The schema of what ``--json FILE`` writes. It holds the tape's schema, so one file is enough to validate."""
    divergence = _closed({
        "class": {"description": "What kind of fault it is.", "enum": list(CLASSES)},
        "check": {"description": "Name of the check that saw it.", "type": "string", "minLength": 1},
        "event": _count("The event of the minimal tape after which it shows, counted from 1; 0: before the first."),
        "minimal_length": _count("Events of the minimal tape."),
        "sentence": {"description": "What differs, in one sentence.", "type": "string", "minLength": 1},
        "tape": {"description": "The minimal tape.", "$ref": f"urn:staleloc:tape:{VERSION}"},
    })  # fmt: skip
    summary = _closed({
        "target": {"description": "The target's name, such as builtin:memo.", "type": "string", "minLength": 1},
        "release": {"description": "The engine's release; null if it has none.", "type": ["string", "null"]},
        "seed": {"description": "Seed of the campaign; null if nothing was drawn.", "type": ["integer", "null"]},
        "verdict": {"enum": ["clean", "divergence", "interrupted"]},
        "divergences": {"description": "One entry a class and check.", "type": "array", "items": divergence},
        "tapes": _count("Tapes played, those of the shrinker not counted."),
        "events": _count("Events played, those of the shrinker not counted."),
        "applied": _count("How many of them did what they say."),
        "skipped": _count("How many of them did not apply when their turn came; engine-level events may not."),
        "seconds": {"description": "Duration of the campaign.", "type": "number", "minimum": 0},
        "events_per_second": {"type": "number", "minimum": 0},
        "situations": {
            "description": "Situation worth reaching -> how often it was; 0 where the run proves nothing about it.",
            "type": "object",
            "additionalProperties": _count("Times."),
        },
    })  # fmt: skip
    return {
        "$schema": DIALECT,
        "$id": "urn:staleloc:summary:1",
        "title": "staleloc summary",
        "description": "The outcome of one run.",
        **summary,
        "if": {"properties": {"verdict": {"enum": ["clean", "interrupted"]}}},
        "then": {"properties": {"divergences": {"maxItems": 0}}},
        "else": {"properties": {"divergences": {"minItems": 1}}},
        "$defs": {"tape": tape_schema()},
    }


def fits(value: object, schema: Schema) -> bool:
    """A fast filter for schemas made of the keywords of an event: True only if JSON Schema calls `value` valid."""
    if not schema:
        return True
    if "const" in schema:
        return type(value) is type(schema["const"]) and value == schema["const"]
    if "enum" in schema:
        return value in schema["enum"]
    kind = schema["type"]
    if kind == "integer":
        return type(value) is int and schema["minimum"] <= value <= schema["maximum"]
    if kind == "boolean":
        return type(value) is bool
    if kind == "string":
        return type(value) is str and re.search(schema["pattern"], value) is not None
    if kind == "array":
        if type(value) is not list or not schema.get("minItems", 0) <= len(value) <= schema["maxItems"]:
            return False
        if "prefixItems" in schema:
            return all(map(fits, value, schema["prefixItems"]))
        return all(fits(item, schema["items"]) for item in value)
    if type(value) is not dict or "properties" not in schema:
        return type(value) is dict
    known = schema["properties"]
    return (
        value.keys() <= known.keys()
        and all(name in value for name in schema["required"])
        and all(fits(item, known[name]) for name, item in value.items())
    )


def dumps(schema: Schema) -> str:
    """The text of a schema file."""
    return json.dumps(schema, indent=2) + "\n"


def main() -> None:
    """Write the schema files beside this module."""
    from staleloc.sim.matrix.schema import matrix_schema

    for name, schema in (("tape", tape_schema()), ("summary", summary_schema()), ("matrix/matrix", matrix_schema())):
        (Path(__file__).parent / f"{name}.schema.json").write_text(dumps(schema), encoding="utf-8")


if __name__ == "__main__":
    main()
