"""The two JSON formats as JSON Schema, built from the dataclasses so that they cannot drift from them.

``python -m staleloc.sim.cli.schemas`` writes ``tape.schema.json`` and ``summary.schema.json`` beside this file, and
``matrix/matrix.schema.json``.
"""

from __future__ import annotations

import json
from functools import cache

from ..core.divergence import CLASSES
from ..core.schema import MAX_ITEMS, NAME, Schema, config_schema, schema_of, value_schema
from ..parts.events_file import ALPHABET

__all__ = [
    "DIALECT", "FORMAT", "MAX_EVENTS", "VERSION", "closed", "dumps", "event_schemas", "summary_schema", "tape_schema",
]  # fmt: skip

FORMAT = "staleloc-tape"
VERSION = 1

MAX_EVENTS = 100_000
"""Events of one tape."""

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@cache
def event_schemas() -> dict[str, Schema]:
    """Event name -> its schema, for all events that no user's file declares."""
    return {event.kind: schema_of(event) for event in ALPHABET}


def _declared() -> Schema:
    """The schema of an event that a file declares: a new name, and fields with plain values."""
    number = value_schema(int, "")
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
            "config": config_schema(),
            "events": {
                "type": "array",
                "maxItems": MAX_EVENTS,
                "items": {"oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in (*events, "declared-event")]},
            },
            "provenance": {
                "description": "Where the tape comes from, for people and reports. Without --target, replay takes the "
                "embedded target, a policy and a mutant of it by name; nothing else is decided by it.",
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


def closed(properties: Schema) -> Schema:
    """The schema of an object with these properties and no others."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


@cache
def summary_schema() -> Schema:
    """The schema of the files of ``--json FILE``. It contains the tape's schema, so one file is enough to validate."""
    divergence = closed({
        "class": {"description": "Class of the divergence.", "enum": list(CLASSES)},
        "check": {"description": "Name of the check that reported it.", "type": "string", "minLength": 1},
        "cause": {"description": "Number of its cause in `causes`, from 1.", "type": "integer", "minimum": 1},
        "calls": {
            "description": "Call chain in the target's own code, as file:line function, from the driver's call to the "
            "exception or to the change that made the state wrong; empty if it is not known.",
            "type": "array",
            "items": {"type": "string"},
        },
        "event": _count("The event of the minimal tape after which it shows, counted from 1; 0: before the first."),
        "minimal_length": _count("Events of the minimal tape."),
        "sentence": {"description": "What differs, in one sentence.", "type": "string", "minLength": 1},
        "tape": {"description": "The minimal tape.", "$ref": f"urn:staleloc:tape:{VERSION}"},
    })  # fmt: skip
    cause = closed({
        "class": {"description": "Class of the divergence with the shortest tape.", "enum": list(CLASSES)},
        "check": {"description": "Name of the check that reported it.", "type": "string", "minLength": 1},
        "place": {
            "description": "The place in the target's code that went wrong, as file:line function; null if unknown.",
            "type": ["string", "null"],
        },
        "tapes": _count("Tapes that diverged in these ways."),
        "findings": _count("Entries of `divergences` that have this cause."),
        "not_shrunk": _count("Further ways to diverge in the same place that were not shrunk."),
        "shortest": _count("Index in `divergences` of the one with the shortest tape."),
    })  # fmt: skip
    summary = closed({
        "target": {"description": "The target's name, such as builtin:memo.", "type": "string", "minLength": 1},
        "release": {"description": "The engine's release; null if it has none.", "type": ["string", "null"]},
        "seed": {"description": "Seed of the campaign; null if nothing was drawn.", "type": ["integer", "null"]},
        "verdict": {"enum": ["clean", "divergence", "interrupted"]},
        "causes": {"description": "The divergences by cause.", "type": "array", "items": cause},
        "divergences": {"description": "One for each minimal tape.", "type": "array", "items": divergence},
        "tapes": _count("Tapes played, those of the shrinker not counted."),
        "events": _count("Events played, those of the shrinker not counted."),
        "applied": _count("Events that took effect."),
        "skipped": _count("Events that did not apply when their turn came, which engine-level events may not."),
        "seconds": {"description": "Duration of the campaign.", "type": "number", "minimum": 0},
        "events_per_second": {"type": "number", "minimum": 0},
        "situations": {
            "description": "Situation -> how often it occurred; 0: the run proves nothing about it.",
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


def dumps(schema: Schema) -> str:
    """The text of a schema file."""
    return json.dumps(schema, indent=2) + "\n"
