"""JSON Schema of events and configs, built from the dataclasses so that it cannot drift from them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, get_args, get_origin, get_type_hints

from ...models.config import CHECKS, EVICTION_POLICIES, SPEC_VERSIONS, Config
from .event import Event

__all__ = [
    "MAX_INTEGER", "MAX_ITEMS", "NAME", "Schema",
    "config_schema", "event_to_json", "fits", "listed", "schema_of", "value_schema",
]  # fmt: skip

Schema = dict[str, Any]
"""A JSON Schema object, draft 2020-12."""

MAX_INTEGER = 1 << 20
"""Largest size, position, count or number in a tape."""

MAX_ITEMS = 4096
"""Requests, spans or layers in one list of a tape."""

_CONFIG_WORDS: dict[str, tuple[str, ...]] = {
    "pool": ("hybrid", "dsv4"),
    "layers": ("full", "swa"),
    "spec_version": SPEC_VERSIONS,
    "checks": CHECKS,
    "eviction_policy": EVICTION_POLICIES,
}
"""The allowed values of a config's string fields; a field that is not listed holds any lower-case name."""

# `$` would let a final newline pass in Python; this end of string means the same in every regex dialect.
NAME = r"^[a-z][a-z0-9_-]{0,31}(?![\s\S])"

_NO_WORDS: Mapping[str, tuple[str, ...]] = {}


def value_schema(hint: Any, name: str, words: Mapping[str, tuple[str, ...]] = _NO_WORDS) -> Schema:
    """The schema of one annotated value; TypeError for an annotation a tape cannot hold."""
    if hint is bool:
        return {"type": "boolean"}
    if hint is int:
        return {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER}
    if hint is str:
        return {"enum": list(words[name])} if name in words else {"type": "string", "pattern": NAME}
    if get_origin(hint) is tuple:
        parts = get_args(hint)
        if parts[-1] is Ellipsis:
            return {"type": "array", "maxItems": MAX_ITEMS, "items": value_schema(parts[0], name, words)}
        items = [value_schema(part, name, words) for part in parts]
        return {"type": "array", "minItems": len(items), "maxItems": len(items), "prefixItems": items}
    raise TypeError(f"field {name!r}: a tape cannot hold {hint}; use int, bool, str or a tuple of them")


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _object(cls: type, first: Schema, words: Mapping[str, tuple[str, ...]]) -> Schema:
    """The schema of a dataclass: fields with a default are optional, others are required, and no others are allowed."""
    hints = get_type_hints(cls)
    known = fields(cls)
    return {
        "description": (inspect.getdoc(cls) or "").partition("\n")[0],
        "type": "object",
        "properties": first | {field.name: value_schema(hints[field.name], field.name, words) for field in known},
        "required": [*first, *(field.name for field in known if _required(field))],
        "additionalProperties": False,
    }


def config_schema() -> Schema:
    """The schema of a tape's config."""
    return _object(Config, {}, _CONFIG_WORDS)


_KNOWN: dict[type[Event], Schema] = {}


def schema_of(event: type[Event]) -> Schema:
    """The schema of such an event in a tape; made once."""
    if event not in _KNOWN:
        _KNOWN[event] = _object(event, {"event": {"const": event.kind}}, event.words)
    return _KNOWN[event]


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


def event_to_json(event: Event) -> dict[str, object]:
    """An event as JSON values."""
    return {"event": event.kind} | listed(event.arguments())


def listed(values: Mapping[str, object]) -> dict[str, object]:
    """The values with lists for tuples, all the way down."""

    def as_list(value: object) -> object:
        return [as_list(item) for item in value] if isinstance(value, tuple) else value

    return {name: as_list(value) for name, value in values.items()}
