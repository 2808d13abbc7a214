"""The format of the file that ``staleloc matrix --json FILE`` writes."""

from __future__ import annotations

from functools import cache

from ...models.config import FEATURES, LEVELS
from ..core.divergence import CLASSES
from ..core.schema import Schema
from ..tapes.schema import DIALECT
from ..targets.registry import families
from .defaults import MAX_SECONDS, MAX_TAPES
from .facts import VERDICTS

__all__ = ["FORMAT", "VERSION", "matrix_schema"]

FORMAT = "staleloc-matrix"
VERSION = 1

_NAME: Schema = {"type": "string", "minLength": 1}
_COUNT: Schema = {"type": "integer", "minimum": 0, "maximum": MAX_TAPES}
_SECONDS: Schema = {"type": "number", "minimum": 0, "maximum": 2 * MAX_SECONDS}


def _closed(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _named(values: Schema, description: str) -> Schema:
    return {"description": description, "type": "object", "additionalProperties": values}


def _list(items: Schema, description: str) -> Schema:
    return {"description": description, "type": "array", "items": items}


def _set(items: Schema, description: str) -> Schema:
    return {**_list(items, description), "uniqueItems": True}


@cache
def matrix_schema() -> Schema:
    """The schema of a matrix file."""
    begins = "|".join(it.begins for it in reversed(families()))
    target: Schema = {"type": "string", "pattern": f"^({begins})"}
    sighting = _closed({"tape": _COUNT, "seconds": _SECONDS})
    other = _closed({"class": {"enum": list(CLASSES)}, "check": _NAME, "what": {"type": "string"}, "tape": _COUNT})
    hunt = _closed({
        "target": target,
        "level": {"enum": list(LEVELS)},
        "features": _set({"enum": list(FEATURES)}, "What is in play on top of the level."),
        "seed": _COUNT,
        "wanted": _set(_NAME, "Scenarios whose tapes diverge on the target; the hunt ends when all were seen."),
        "drawn": {"description": "Digest of the first tapes, and of the words of what is wanted.", **_NAME},
        "tapes": {"description": "Tapes played.", **_COUNT},
        "seconds": {"description": "Of processor time, playing them.", **_SECONDS},
        "found": _named(sighting, "Scenario -> the first tape that looks like it."),
        "others": _list(other, "What looks like no scenario, one a kind."),
        "note": {"description": "Why it ended before its time.", "type": ["string", "null"]},
    })  # fmt: skip
    replayed = _closed({"verdict": {"enum": list(VERDICTS)}, "what": {"type": "string"}})
    nothing = {"type": "null"}
    budget = [
        _closed({"tapes": {**_COUNT, "minimum": 1}, "seconds": nothing}),
        _closed({"tapes": nothing, "seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_SECONDS}}),
    ]
    return {
        "$schema": DIALECT,
        "$id": f"urn:staleloc:matrix:{VERSION}",
        "title": "staleloc matrix",
        "description": "Which release shows which incident: by its tape, and by blind fuzzing.",
        **_closed(
            {
                "format": {"const": FORMAT},
                "version": {"const": VERSION},
                "staleloc": {"description": "Version that measured it.", **_NAME},
                "cores": {"description": "CPUs of the machine.", **_COUNT, "minimum": 1},
                "seeds": {**_set(_COUNT, "Seeds of the hunts."), "minItems": 1},
                "budget": {"description": "Of each hunt: tapes, or seconds.", "anyOf": budget},
                "releases": _set(target, "Targets, oldest release first."),
                "absent": _named({"type": "string"}, "Target -> why nothing could be measured on it."),
                "replays": _named(_named(replayed, "Scenario -> what its tape does."), "Target -> replays."),
                "hunts": _list(hunt, "One a target, level, features and seed."),
            }
        ),
    }
