"""The matrix for a terminal, as an HTML page, as a Markdown page, and as a table in a Markdown file."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..findings.files import KeepError, read_text
from ..findings.text import columns
from ..tapes.scenarios import Scenario
from ..targets.registry import released, short_name
from .measurements import VERDICTS, Matrix
from .record import alarms
from .tables import (
    LEGEND,
    TAPE_NUMBERS,
    UNREPORTED,
    UNTOLD,
    Cell,
    cell_of,
    empty,
    footnotes,
    head,
    label,
    measured,
    ordered,
    otherwise,
    quiet_caption,
    quiet_rows,
    quiet_total,
    said_words,
    short,
    untold,
)

__all__ = ["MARKS", "check_markdown", "compact", "readme", "to_html", "to_markdown", "to_markdown_in", "to_text"]

_HITS = re.compile(r" \d+/\d+$")


def to_text(matrix: Matrix, known: Sequence[Scenario]) -> str:
    """Return the table, its legend and its footnotes."""
    rows = [("", *map(short_name, matrix.releases))]
    rows += [(label(it), *(short(cell_of(matrix, it, target)) for target in matrix.releases)) for it in ordered(known)]
    lines = columns(rows, indent="")
    used = {cell for row in rows[1:] for cell in row[1:]}
    legend = [(text or "(none)", says) for text, says in LEGEND.items() if _occurs(text, used)]
    lines += ["", *columns(legend, indent=""), "", *footnotes(matrix, known), *quiet_total(matrix, known)]
    lines += [*(f"NEW: {line}" for line in alarms(matrix, known)), measured(matrix)]
    return "\n".join(lines) + "\n"


def _occurs(text: str, cells: set[str]) -> bool:
    """Return whether a text of the legend is in the table."""
    if text == "*":
        return any(cell.endswith("*") for cell in cells)
    unmarked = {cell.removesuffix("*") for cell in cells}
    if text == "3/5":
        return any(map(_HITS.search, unmarked))
    plain = {_HITS.sub("", cell) for cell in unmarked}
    return text in plain or (text == "3 s" and any(cell.endswith(" s") for cell in plain))


def to_html(matrix: Matrix, known: Sequence[Scenario]) -> str:
    """Return one HTML file without external resources."""
    family = released()
    loader = PackageLoader("staleloc.sim.matrix", "")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    return environment.get_template("page.html").render(
        measured=f"{measured(matrix)} {UNREPORTED} {TAPE_NUMBERS}",
        engine=family.title,
        pull=family.pulls,
        heads=[short_name(target) for target in matrix.releases],
        rows=[_html_row(matrix, scenario) for scenario in ordered(known)],
        legend=list(LEGEND.items()),
        quiet=quiet_rows(matrix, known),
        quiet_caption=quiet_caption(matrix),
        footnotes=footnotes(matrix, known),
        otherwise=otherwise(matrix, known),
        alarms=alarms(matrix, tuple(known)),
        empty=empty(matrix, known),
        untold=untold(matrix),
        untold_caption=UNTOLD,
    )


def _html_row(matrix: Matrix, scenario: Scenario) -> dict[str, Any]:
    return {
        "head": head(scenario),
        "label": label(scenario),
        "family": scenario.family,
        "said": said_words(scenario.said),
        "incident": scenario.incident,
        "mechanism": scenario.mechanism,
        "cells": [_html_cell(cell_of(matrix, scenario, target)) for target in matrix.releases],
    }


def _html_cell(cell: Cell) -> dict[str, str]:
    if cell.replayed is None:
        return {"text": short(cell), "classes": "", "title": "not measured", "blind": ""}
    lines = [
        VERDICTS[cell.replayed.verdict],
        cell.replayed.what,
        _hits(cell),
        cell.differs.text if cell.differs else "",
    ]
    return {
        "text": short(cell),
        "classes": cell.replayed.verdict + (" differs" if cell.differs else ""),
        "title": ". ".join(filter(None, lines)),
        "blind": f"tape {cell.blind.tape}" if cell.blind is not None and cell.blind.tape is not None else "",
    }


def _hits(cell: Cell) -> str:
    return f"found by {cell.blind.hits} of {cell.blind.hunts} hunts" if cell.blind is not None else ""


TITLE = "# The release matrix"
"""First line of the Markdown page."""

MARKS = ("<!-- matrix: written by staleloc matrix -->", "<!-- end of matrix -->")
"""Lines of a Markdown file between which the table stands, if the file has other content."""

_INTRO = (
    "Which {engine} release has which bug, shown by its tape and by fuzzing without knowledge of it. "
    f"{UNREPORTED} See [FINDINGS.md](FINDINGS.md). "
    "Written by `staleloc matrix`; `docs/matrix.json` has the measurements. Seconds are processor time of play, as on "
    f"one idle core, without loading and shrinking. {TAPE_NUMBERS}"
)

_TRIAGED = "[FINDINGS.md](FINDINGS.md#other-forms-of-known-bugs) assigns them."

_WIDTH = 112


def compact(matrix: Matrix, known: Sequence[Scenario], tapes: bool = False) -> str:
    """Return the table, one row for each incident."""
    rows = [[f"{released().title} PR, incident", *map(short_name, matrix.releases)]]
    for scenario in ordered(known):
        cells = [short(cell_of(matrix, scenario, target), tapes).replace("*", "\\*") for target in matrix.releases]
        rows.append([_linked(scenario), *cells])
    return "\n".join(_markdown_table(rows))


def readme(matrix: Matrix, known: Sequence[Scenario]) -> str:
    """Return the text between the marks of another file."""
    total = "".join(f"\n{line}\n" for line in quiet_total(matrix, known))
    return compact(matrix, known) + total


def to_markdown(matrix: Matrix, known: Sequence[Scenario]) -> str:
    """Return the whole Markdown page."""
    legend = [f"- {f'`{text}`' if text else 'nothing'}: {says}" for text, says in LEGEND.items()]
    in_tapes = (
        "The same, with the number of the first tape that shows the bug (median of the seeds) instead of seconds."
    )
    new = (
        "Divergences where no scenario diverges, or where the record says that the bug is fixed and the scenario does "
        "not list it."
    )
    intro = _wrapped(_INTRO.format(engine=released().title))
    lines = [
        *[TITLE, "", *intro, "", measured(matrix), "", compact(matrix, known), *legend, ""],
        *["## In tapes", "", *_wrapped(f"{in_tapes} {TAPE_NUMBERS}"), "", compact(matrix, known, tapes=True)],
        *["## Blind, where no tape diverges", "", *_wrapped(quiet_caption(matrix)), ""],
        *_markdown_table(quiet_rows(matrix, known)),
        *["## Differs from the public record", "", *_listed(footnotes(matrix, known)), ""],
        *[
            "## Diverges with another class",
            "",
            "The cells with an `o`.",
            "",
            *_markdown_table(otherwise(matrix, known)),
        ],
        *["## New", "", new, "", *_listed(alarms(matrix, known)), ""],
        *["## Incidents", "", *_incidents(known)],
        *["## Empty cells", "", *_markdown_table(empty(matrix, known))],
        *["## Not told apart", "", *_wrapped(f"{UNTOLD} {_TRIAGED}"), "", *_listed(untold(matrix))],
    ]
    return "\n".join(lines) + "\n"


def _linked(scenario: Scenario) -> str:
    parts = head(scenario)
    number = f"[{parts.number}]({released().pulls}{parts.number})" if parts.number else ""
    return parts.before + number + parts.after


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table and an empty line, or a word if it has no rows."""
    if not rows:
        return ["Nothing.", ""]
    return [_markdown_row(rows[0]), _markdown_row(["---"] * len(rows[0])), *map(_markdown_row, rows[1:]), ""]


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(' '.join(cell.split()).replace('|', '/') for cell in cells)} |"


def _listed(lines: Sequence[str]) -> list[str]:
    return [f"- {' '.join(line.split())}" for line in lines] or ["Nothing."]


def _incidents(known: Sequence[Scenario]) -> list[str]:
    rows = [["tape", "incident", "family", "the record says", "mechanism"]]
    rows += [[f"`{it.name}`", it.incident, it.family, said_words(it.said), it.mechanism] for it in ordered(known)]
    return _markdown_table(rows)


def check_markdown(path: Path) -> None:
    """Raise KeepError unless `to_markdown_in` can replace the file without removing anything else."""
    text = _read(path)
    if MARKS[0] in text and MARKS[1] not in text.partition(MARKS[0])[2]:
        raise KeepError(f"{path} has the line {MARKS[0]!r} without {MARKS[1]!r} after it")
    if text.strip() and MARKS[0] not in text and not text.startswith(TITLE):
        raise KeepError(
            f"{path} was not written by staleloc: it is no page of the matrix, and has no line {MARKS[0]!r} for the "
            "table"
        )


def to_markdown_in(path: Path, matrix: Matrix, known: Sequence[Scenario]) -> str:
    """Return the page, or the text of a file with the table between its `MARKS`.

    Raises:
        KeepError: the file cannot be read, or has other content and no marks.
    """
    check_markdown(path)
    first, last = MARKS
    before, found, rest = _read(path).partition(first)
    after = rest.partition(last)[2]
    return f"{before}{first}\n{readme(matrix, known)}{last}{after}" if found else to_markdown(matrix, known)


def _read(path: Path) -> str:
    return read_text(path) if path.exists() else ""
