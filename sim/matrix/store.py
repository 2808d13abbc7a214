"""A matrix as a file: written after every step, and read by the run that goes on with it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jsonschema

from ..core.jsontext import JsonError, parse
from ..findings.files import KeepError, write
from ..tapes.scenarios import scenarios
from ..targets.scope import Scope
from .facts import Budget, Hunt, HuntKey, Matrix, Other, Replayed, Sighting
from .record import order
from .schema import FORMAT, VERSION, matrix_schema
from .validate import flaw

__all__ = ["from_json", "load", "save", "to_json"]


def to_json(matrix: Matrix) -> dict[str, Any]:
    """The matrix as JSON values, valid under ``matrix.schema.json``."""
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
    }


def from_json(values: dict[str, Any]) -> Matrix:
    """The matrix of valid JSON values."""
    return Matrix(
        tuple(values["seeds"]),
        Budget(**values["budget"]),
        values["cores"],
        values["staleloc"],
        list(values["releases"]),
        {
            target: {name: Replayed(**replayed) for name, replayed in replays.items()}
            for target, replays in values["replays"].items()
        },
        dict(map(_hunt_from_json, values["hunts"])),
        dict(values["absent"]),
    )


def save(matrix: Matrix, path: Path) -> None:
    """Write the file, or the one that a link leads to, in one step: whoever reads it finds the old one or the new one.

    Raises:
        KeepError: it cannot be written.
    """
    path = path.resolve()
    beside = path.with_name(f".{path.name}.staleloc-new")
    write(beside, json.dumps(to_json(matrix), indent=1, ensure_ascii=True) + "\n")
    os.replace(beside, path)


def load(path: Path) -> Matrix:
    """The matrix of a file.

    Raises:
        KeepError: it is not one, or says what no run of this version can have measured.
    """
    try:
        values: Any = parse(path.read_text(encoding="utf-8"))
        jsonschema.validate(values, matrix_schema())
    except OSError as error:
        raise KeepError(f"{path} cannot be read ({error.strerror or error})") from None
    except jsonschema.ValidationError as error:
        raise KeepError(
            f"{path} is no matrix: at {error.json_path}: {error.message[:100]}; give another path"
        ) from None
    except JsonError as error:
        raise KeepError(f"{path} is no matrix: {error}; or give another path") from None
    except (ValueError, RecursionError):
        raise KeepError(f"{path} is no matrix; give another path") from None
    matrix = from_json(values)
    wrong = flaw(matrix, {scenario.name for scenario in scenarios()})
    if wrong is None and len(matrix.hunts) < len(values["hunts"]):
        wrong = "a hunt is there twice"
    if wrong is not None:
        raise KeepError(f"{path} is no matrix that this version can have measured: {wrong}; give another path")
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
