"""The matrix file: its JSON format and schema, validation, saving and loading, and the lock of a run."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
from filelock import FileLock, Timeout
from packaging.version import InvalidVersion

from ...models.config import FEATURES, LEVELS
from ..core.divergence import CLASSES
from ..core.schema import Schema
from ..findings.files import KeepError, read_text, write
from ..tapes.codec import JsonError, parse_json
from ..tapes.scenarios import scenarios
from ..tapes.schema import DIALECT, closed
from ..targets.base import Scope
from ..targets.registry import families
from .measurements import MAX_SECONDS, MAX_TAPES, VERDICTS, Hunt, HuntBudget, HuntKey, Matrix, Other, Replayed, Sighting
from .record import order

__all__ = ["load", "locked", "matrix_schema", "save", "to_json"]

FORMAT = "staleloc-matrix"
VERSION = 1

_LOCK_SECONDS = 0.2
"""Time for a second attempt, when the last owner removes the lock file during the first one."""

_NAME: Schema = {"type": "string", "minLength": 1}
_COUNT: Schema = {"type": "integer", "minimum": 0, "maximum": MAX_TAPES}
_SECONDS: Schema = {"type": "number", "minimum": 0, "maximum": 2 * MAX_SECONDS}


def _named(values: Schema, description: str) -> Schema:
    return {"description": description, "type": "object", "additionalProperties": values}


def _list(items: Schema, description: str) -> Schema:
    return {"description": description, "type": "array", "items": items}


def _set(items: Schema, description: str) -> Schema:
    return {**_list(items, description), "uniqueItems": True}


@cache
def matrix_schema() -> Schema:
    """Return the schema of a matrix file."""
    begins = "|".join(it.begins for it in reversed(families()))
    target: Schema = {"type": "string", "pattern": f"^({begins})"}
    sighting = closed({"tape": _COUNT, "seconds": _SECONDS})
    other = closed({"class": {"enum": list(CLASSES)}, "check": _NAME, "what": {"type": "string"}, "tape": _COUNT})
    hunt = closed({
        "target": target,
        "level": {"enum": list(LEVELS)},
        "features": _set({"enum": list(FEATURES)}, "Features of the level."),
        "seed": _COUNT,
        "wanted": _set(_NAME, "Scenarios whose tapes diverge on the target; the hunt ends when all were seen."),
        "drawn": {"description": "Digest of the first tapes and of the messages of the wanted scenarios.", **_NAME},
        "tapes": {"description": "Tapes played.", **_COUNT},
        "seconds": {"description": "Processor time of play.", **_SECONDS},
        "found": _named(sighting, "Scenario -> the first tape that looks like it."),
        "others": _list(other, "Divergences that match no scenario, one for each kind."),
        "note": {"description": "Why it ended early.", "type": ["string", "null"]},
    })  # fmt: skip
    replayed = closed({"verdict": {"enum": list(VERDICTS)}, "what": {"type": "string"}})
    nothing = {"type": "null"}
    budget = [
        closed({"tapes": {**_COUNT, "minimum": 1}, "seconds": nothing}),
        closed({"tapes": nothing, "seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_SECONDS}}),
    ]
    return {
        "$schema": DIALECT,
        "$id": f"urn:staleloc:matrix:{VERSION}",
        "title": "staleloc matrix",
        "description": "Which release has which incident, shown by its tape and by blind fuzzing.",
        **_with(
            {"judged": _named(_NAME, "Checkout or wheel -> the release whose public record holds for it.")},
            {
                "format": {"const": FORMAT},
                "version": {"const": VERSION},
                "staleloc": {"description": "Version that measured it.", **_NAME},
                "cores": {"description": "CPUs of the machine.", **_COUNT, "minimum": 1},
                "seeds": {**_set(_COUNT, "Seeds of the hunts."), "minItems": 1},
                "budget": {"description": "Of each hunt: tapes, or seconds.", "anyOf": budget},
                "releases": _set(target, "Targets, oldest release first."),
                "absent": _named({"type": "string"}, "Target -> why nothing could be measured on it."),
                "replays": _named(_named(replayed, "Scenario -> result of its tape."), "Target -> replays."),
                "hunts": _list(hunt, "One for each target, level, features and seed."),
            },
        ),
    }


def _with(optional: Schema, properties: Schema) -> Schema:
    """Return the schema of an object with these properties, and perhaps the optional ones."""
    schema = closed(properties)
    return {**schema, "properties": {**properties, **optional}}


_ROUNDING = 0.001
"""Files have seconds rounded to milliseconds."""


def flaw(matrix: Matrix, known: Collection[str]) -> str | None:
    """Return the first inconsistency that no run can have measured and that a schema cannot express, or None.

    Args:
        known: names of all scenarios.
    """
    return next(_flaws(matrix, known), None)


def _flaws(matrix: Matrix, known: Collection[str]) -> Iterator[str]:
    yield from _of_releases(matrix)
    for target, replays in matrix.replays.items():
        yield from (f"{target}: {_unknown(name)}" for name in replays if name not in known)
    for key, hunt in matrix.hunts.items():
        place = f"{key.target}, {key.scope}, seed {key.seed}"
        yield from (f"{place}: {wrong}" for wrong in _of_hunt(matrix, key, hunt, known))


def _of_releases(matrix: Matrix) -> Iterator[str]:
    try:
        if matrix.releases != sorted(set(matrix.releases), key=order):
            yield "releases are not in order, or occur twice"
    except InvalidVersion as error:
        yield str(error)
    for target in sorted(set(matrix.releases) ^ set(matrix.replays)):
        yield f"{target} is among the {'releases' if target in matrix.releases else 'replays'} only"


def _of_hunt(matrix: Matrix, key: HuntKey, hunt: Hunt, known: Collection[str]) -> Iterator[str]:
    if key.target not in matrix.releases:
        yield "its release is not in the file"
    if key.seed not in matrix.seeds:
        yield "its seed is not in the file"
    yield from (_unknown(name) for name in [*hunt.wanted, *hunt.found] if name not in known)
    seen = [it.tape for it in hunt.found.values()] + [it.tape for it in hunt.others]
    yield from (f"tape {tape} was found, of {hunt.tapes} tapes" for tape in seen if tape >= hunt.tapes)
    yield from (
        f"found after {it.seconds} s of {hunt.seconds}" for it in hunt.found.values() if it.seconds > hunt.seconds
    )
    if matrix.budget.tapes is not None and hunt.tapes > matrix.budget.tapes:
        yield f"{hunt.tapes} tapes were played of {matrix.budget}"
    found_all = hunt.wanted and all(name in hunt.found for name in hunt.wanted)
    if hunt.note is None and not found_all and not _is_spent(matrix.budget, hunt):
        yield f"it ended after {hunt.tapes} tapes and {hunt.seconds} s, did not find all, and gives no reason"


def _is_spent(budget: HuntBudget, hunt: Hunt) -> bool:
    if budget.tapes is not None:
        return hunt.tapes == budget.tapes
    return hunt.seconds + _ROUNDING >= (budget.seconds or math.inf)


def _unknown(name: str) -> str:
    return f"no scenario is called {name}"


def to_json(matrix: Matrix) -> dict[str, Any]:
    """Return the matrix as JSON values, valid under ``matrix.schema.json``."""
    keys = sorted(matrix.hunts, key=lambda key: (order(key.target), key.scope.level, key.scope.features, key.seed))
    return {
        "format": FORMAT,
        "version": VERSION,
        "staleloc": matrix.version,
        "cores": matrix.cores,
        "seeds": list(matrix.seeds),
        "budget": asdict(matrix.budget),
        "releases": matrix.releases,
        "absent": matrix.absent,
        "replays": {
            target: {name: asdict(replayed) for name, replayed in sorted(matrix.replays[target].items())}
            for target in matrix.releases
        },
        "hunts": [_hunt_to_json(key, matrix.hunts[key]) for key in keys],
        **({"judged": dict(sorted(matrix.judged.items()))} if matrix.judged else {}),
    }


def from_json(values: dict[str, Any]) -> Matrix:
    """Return the matrix of valid JSON values."""
    return Matrix(
        tuple(values["seeds"]),
        HuntBudget(**values["budget"]),
        values["cores"],
        values["staleloc"],
        list(values["releases"]),
        {
            target: {name: Replayed(**replayed) for name, replayed in replays.items()}
            for target, replays in values["replays"].items()
        },
        dict(map(_hunt_from_json, values["hunts"])),
        dict(values["absent"]),
        dict(values.get("judged", {})),
    )


def save(matrix: Matrix, path: Path) -> None:
    """Write the file, or the target of a link, in one step: readers find either the old file or the new one.

    Raises:
        KeepError: it cannot be written.
    """
    write(path, json.dumps(to_json(matrix), indent=1, ensure_ascii=True) + "\n")


def load(path: Path) -> Matrix:
    """Return the matrix of a file.

    Raises:
        KeepError: it is no matrix, or holds what no run of this version can have measured.
    """
    try:
        values: Any = parse_json(read_text(path))
        jsonschema.validate(values, matrix_schema())
    except jsonschema.ValidationError as error:
        raise KeepError(
            f"{path} is not a matrix: at {error.json_path}: {error.message[:100]}; give another path"
        ) from None
    except JsonError as error:
        raise KeepError(f"{path} is not a matrix: {error}; or give another path") from None
    except (ValueError, RecursionError):
        raise KeepError(f"{path} is not a matrix; give another path") from None
    matrix = from_json(values)
    wrong = flaw(matrix, {scenario.name for scenario in scenarios()})
    if wrong is None and len(matrix.hunts) < len(values["hunts"]):
        wrong = "a hunt occurs twice"
    if wrong is not None:
        raise KeepError(f"{path} is not a matrix that this version can have measured: {wrong}; give another path")
    return matrix


def _hunt_to_json(key: HuntKey, hunt: Hunt) -> dict[str, Any]:
    return {
        "target": key.target,
        "level": key.scope.level,
        "features": list(key.scope.features),
        "seed": key.seed,
        "wanted": list(hunt.wanted),
        "drawn": hunt.drawn,
        "tapes": hunt.tapes,
        "seconds": round(hunt.seconds, 3),
        "found": {
            name: {"tape": seen.tape, "seconds": round(seen.seconds, 3)} for name, seen in sorted(hunt.found.items())
        },
        "others": [
            {"class": other.kind, "check": other.check, "what": other.what, "tape": other.tape}
            for other in hunt.others
        ],
        "note": hunt.note,
    }  # fmt: skip


def _hunt_from_json(values: dict[str, Any]) -> tuple[HuntKey, Hunt]:
    key = HuntKey(values["target"], Scope(values["level"], tuple(values["features"])), values["seed"])
    found = {name: Sighting(**seen) for name, seen in values["found"].items()}
    others = tuple(Other(it["class"], it["check"], it["what"], it["tape"]) for it in values["others"])
    wanted, drawn = tuple(values["wanted"]), values["drawn"]
    return key, Hunt(wanted, drawn, values["tapes"], values["seconds"], found, others, values["note"])


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other runs off a matrix file by a lock on another file beside it.

    Two runs on one file would each discard the results of the other. The system releases the lock when the process
    ends, so a killed run does not block the next one.

    Raises:
        KeepError: another run holds the lock, or no file can be made there.
    """
    beside = path.resolve().with_name(f".{path.resolve().name}.staleloc-lock")
    lock = FileLock(beside, timeout=_LOCK_SECONDS)
    try:
        lock.acquire()
    except Timeout:
        raise KeepError(f"another run measures into {path}; wait for it, or give another path") from None
    except OSError as error:
        raise KeepError(f"{beside} cannot be locked ({error.strerror or error})") from None
    try:
        yield
    finally:
        beside.unlink(missing_ok=True)
        lock.release()
