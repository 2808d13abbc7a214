"""The report of a coverage run: as text, and as JSON (``coverage.schema.json``)."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ...models.config import LEVELS
from ..core.schema import Schema
from ..tapes.schema import DIALECT
from ..targets.base import ASKED
from .measure import Measured
from .record import SORTS, Entry
from .table import FITS_NOTHING, Count, File, Gap, Row

__all__ = ["Report", "coverage_schema"]

FORMAT = "staleloc-coverage"
VERSION = 1

NOT_REACHED = "not reached"

_WIDTH = 120

_MAX_UNFIT = 10
"""Entries that fit nothing are only counted if there are more: the record was then made for another release."""


@dataclass(frozen=True)
class Report:
    """Everything that a run found out.

    Attributes:
        target: the target's name.
        release: the engine's release, or None.
        python: version of Python; which statements can run depends on it.
        stale: entries of the record that do not hold, each with the reason.
    """

    target: str
    release: str | None
    python: str
    seed: int
    measured: Measured
    files: Sequence[File]
    stale: Sequence[tuple[Entry, str]]

    @property
    def count(self) -> Count:
        """The numbers of all files together."""
        return sum((file.count for file in self.files), Count())

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values, valid under ``coverage.schema.json``."""
        measured = self.measured
        return {
            "format": FORMAT,
            "version": VERSION,
            "target": self.target,
            "release": self.release,
            "python": self.python,
            "seed": self.seed,
            "interrupted": measured.interrupted,
            "scenarios": {"played": measured.scenarios, "diverged": measured.diverged},
            "tapes": [
                {
                    "level": it.scope.level,
                    "features": list(it.scope.features),
                    "together": it.scope.together,
                    "played": it.tapes,
                    "diverged": it.diverged,
                }
                for it in measured.played
            ],
            "total": _numbers(self.count),
            "files": [
                {"path": file.path, **_numbers(file.count), "functions": [_function(row) for row in file.rows]}
                for file in self.files
            ],
            "stale": [{"place": entry.place, "line": entry.line, "flaw": flaw} for entry, flaw in self.stale],
        }

    def text(self) -> str:
        """Return the report as text: what was played, the table, and the lines that never ran."""
        return "\n".join([*self._head(), "", *self._table(), *self._gaps(), *self._tail()]) + "\n"

    def _head(self) -> Iterator[str]:
        measured = self.measured
        tapes = sum(it.tapes for it in measured.played)
        ended = "; interrupted" if measured.interrupted else ""
        yield f"{self.target}, seed {self.seed}: {tapes} tapes and {measured.scenarios} scenarios{ended}"
        cells = [(str(it.scope), str(it.tapes)) for it in measured.played]
        width = max((len(name) for name, _ in cells), default=0)
        yield from (f"  {name.ljust(width)}  {count.rjust(6)} tapes" for name, count in cells)

    def _table(self) -> Iterator[str]:
        head = ("file", "lines", "run", "not drivable", NOT_REACHED, "%")
        rows = [head, *((file.path, *_cells(file.count)) for file in self.files), ("all", *_cells(self.count))]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        for row in rows:
            cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            yield "  ".join([row[0].ljust(widths[0]), *cells])
        yield ""
        yield "Lines are statements of functions. % is the part of the drivable ones that was run."
        sorts = Counter(
            gap.reason.sort for file in self.files for row in file.rows for gap in row.gaps
            for _ in range(gap.count) if gap.reason is not None
        )  # fmt: skip
        if sorts:
            yield "Not drivable:"
            yield from (f"  {count:6} {sort}: {SORTS[sort]}" for sort, count in sorted(sorts.items()))

    def _gaps(self) -> Iterator[str]:
        for file in self.files:
            rows = [row for row in file.rows if row.gaps]
            if rows:
                yield ""
                yield file.path
            for row in rows:
                ran = f"{row.count.run} of {row.count.lines} lines run" if row.count.run else "never run"
                yield f"  {row.function.name} (line {row.function.line}): {ran}"
                for why, spans in _by_reason(row.gaps):
                    text = f"{', '.join(spans)}: {why}"
                    yield from textwrap.wrap(text, _WIDTH, initial_indent="    ", subsequent_indent="      ")

    def _tail(self) -> Iterator[str]:
        if self.stale:
            yield ""
            yield f"{len(self.stale)} entries of the record do not hold here:"
            refuted = [it for it in self.stale if it[1] != FITS_NOTHING]
            unfit = [it for it in self.stale if it[1] == FITS_NOTHING]
            shown = unfit if len(unfit) <= _MAX_UNFIT else []
            yield from (f"  {entry.name}: {flaw}" for entry, flaw in (*refuted, *shown))
            if len(unfit) > len(shown):
                yield f"  {len(unfit)} fit nothing in this release; --json lists them"
        measured = self.measured
        diverged = [it for it in measured.played if it.diverged]
        if diverged or measured.diverged:
            of = sum(it.diverged for it in measured.played)
            yield ""
            yield f"{of} tapes and {measured.diverged} scenarios diverged, and ended there. To look at the tapes:"
        for it in diverged:
            words = ["--target", self.target, "--seed", str(self.seed), *it.scope.options, "--tapes", str(it.tapes)]
            yield f"  staleloc fuzz {shlex.join(words)}"


def _by_reason(gaps: Sequence[Gap]) -> list[tuple[str, list[str]]]:
    """Return the lines of each reason, in the order of the first of them."""
    found: dict[str, list[str]] = {}
    for gap in gaps:
        why = NOT_REACHED if gap.reason is None else f"not drivable, {gap.reason.sort}: {gap.reason.why}"
        span = str(gap.first) if gap.first == gap.last else f"{gap.first}–{gap.last}"  # noqa: RUF001 - a range
        found.setdefault(why, []).append(span)
    return list(found.items())


def _cells(count: Count) -> tuple[str, ...]:
    percent = count.percent
    numbers = (count.lines, count.run, count.not_drivable, count.not_reached)
    return (*map(str, numbers), "-" if percent is None else f"{percent:.1f}")


def _numbers(count: Count) -> dict[str, Any]:
    return {
        "lines": count.lines,
        "run": count.run,
        "not_drivable": count.not_drivable,
        "not_reached": count.not_reached,
        "percent": count.percent,
    }


def _function(row: Row) -> dict[str, Any]:
    missing = [
        {
            "first": gap.first,
            "last": gap.last,
            "lines": gap.count,
            "is": NOT_REACHED if gap.reason is None else gap.reason.sort,
            "why": None if gap.reason is None else gap.reason.why,
        }
        for gap in row.gaps
    ]
    return {"name": row.function.name, "line": row.function.line, **_numbers(row.count), "missing": missing}


def _closed(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _list(items: Schema, description: str) -> Schema:
    return {"description": description, "type": "array", "items": items}


@cache
def coverage_schema() -> Schema:
    """Return the schema of the files of ``--json FILE``."""
    name: Schema = {"type": "string", "minLength": 1}
    count: Schema = {"type": "integer", "minimum": 0}
    line: Schema = {"type": "integer", "minimum": 1}
    numbers: Schema = {
        "lines": {"description": "Statements of functions that can run.", **count},
        "run": {"description": "Those that ran.", **count},
        "not_drivable": {"description": "Those that did not run and have a reason in the record.", **count},
        "not_reached": {"description": "All others.", **count},
        "percent": {"description": "Part of the drivable ones that ran; null if there are none.",
                    "type": ["number", "null"], "minimum": 0, "maximum": 100},
    }  # fmt: skip
    missing = _closed({
        "first": line,
        "last": line,
        "lines": {"description": "Statements.", **count},
        "is": {"description": "The sort of the reason.", "enum": [NOT_REACHED, *SORTS]},
        "why": {"description": "The reason, in one sentence; null if it is not known.", "type": ["string", "null"]},
    })  # fmt: skip
    function = _closed({
        "name": {"description": "Qualified name inside the module.", **name},
        "line": {"description": "Line of its definition.", **line},
        **numbers,
        "missing": _list(missing, "Lines that no tape ran, in order."),
    })  # fmt: skip
    file = _closed({"path": name, **numbers, "functions": _list(function, "In the order of lines.")})
    tapes = _closed({
        "level": {"enum": list(LEVELS)},
        "features": _list({"enum": list(ASKED)}, "Active features."),
        "together": {"description": "Each tape has all of them.", "type": "boolean"},
        "played": count,
        "diverged": count,
    })  # fmt: skip
    stale = _closed({"place": name, "line": {"type": "string"}, "flaw": name})
    return {
        "$schema": DIALECT,
        "$id": f"urn:staleloc:coverage:{VERSION}",
        "title": "staleloc coverage",
        "description": "Which lines of a target's own code tapes ran.",
        **_closed(
            {
                "format": {"const": FORMAT},
                "version": {"const": VERSION},
                "target": {"description": "The target's name.", **name},
                "release": {"description": "The engine's release; null if it has none.", "type": ["string", "null"]},
                "python": {"description": "Version of Python.", **name},
                "seed": {"description": "Seed of the tapes.", **count},
                "interrupted": {"description": "Not all was played.", "type": "boolean"},
                "scenarios": _closed({"played": count, "diverged": count}),
                "tapes": _list(tapes, "One entry for each level and combination of features."),
                "total": _closed(numbers),
                "files": _list(file, "In the order of paths."),
                "stale": _list(stale, "Entries of the record of code that cannot be driven which do not hold."),
            }
        ),
    }
