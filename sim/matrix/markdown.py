"""The matrix as Markdown: a page of its own, and the table in a page that has marks for it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from ..findings.files import KeepError, write
from ..tapes.scenarios import Scenario
from ..targets.registry import released, short_name
from .cells import LEGEND, cell_of, footnotes, short
from .facts import Matrix
from .notes import empty, otherwise, untold
from .record import alarms
from .rows import head, ordered, said_words
from .wording import (
    TAPE_NUMBERS,
    UNREPORTED,
    UNTOLD,
    measured,
    quiet_caption,
    quiet_rows,
    quiet_total,
)  # fmt: skip

__all__ = ["MARKS", "check_markdown", "compact", "page", "readme", "write_markdown"]

TITLE = "# The release matrix"
"""First line of the page."""

MARKS = ("<!-- matrix: staleloc matrix writes what stands here -->", "<!-- end of matrix -->")
"""Lines of a Markdown file between which the table stands, if it has more than the table."""

_INTRO = (
    "Which {engine} release shows which bug: by its tape, and by fuzzing that knows of no incident. "
    f"{UNREPORTED} See [FINDINGS.md](FINDINGS.md). "
    "Written by `staleloc matrix`; `docs/matrix.json` has what was measured. Seconds are of processor time, as on one "
    f"idle core, playing; loading and shrinking come on top. {TAPE_NUMBERS}"
)

_TRIAGED = "[FINDINGS.md](FINDINGS.md#other-faces) says which."

_WIDTH = 112


def compact(matrix: Matrix, known: Sequence[Scenario], tapes: bool = False) -> str:
    """The table, one row an incident."""
    rows = [[f"{released().title} PR, incident", *map(short_name, matrix.releases)]]
    for scenario in ordered(known):
        cells = [short(cell_of(matrix, scenario, target), tapes).replace("*", "\\*") for target in matrix.releases]
        rows.append([_linked(scenario), *cells])
    return "\n".join(_table(rows))


def readme(matrix: Matrix, known: Sequence[Scenario]) -> str:
    """What stands between the marks of another page."""
    total = "".join(f"\n{line}\n" for line in quiet_total(matrix, known))
    return compact(matrix, known) + total


def page(matrix: Matrix, known: Sequence[Scenario]) -> str:
    """All of it."""
    legend = [f"- {f'`{text}`' if text else 'nothing'}: {says}" for text, says in LEGEND.items()]
    in_tapes = (
        "The same, with the number of the first tape that shows the bug (median of the seeds) in place of seconds."
    )
    new = "Divergences where no tape diverges, or where the bug is said to be fixed and no finding says otherwise."
    intro = _wrapped(_INTRO.format(engine=released().title))
    lines = [
        *[TITLE, "", *intro, "", measured(matrix), "", compact(matrix, known), *legend, ""],
        *["## In tapes", "", *_wrapped(f"{in_tapes} {TAPE_NUMBERS}"), "", compact(matrix, known, tapes=True)],
        *["## Blind, where nothing is known", "", *_wrapped(quiet_caption(matrix)), ""],
        *_table(quiet_rows(matrix, known)),
        *["## Not what the record says", "", *_listed(footnotes(matrix, known)), ""],
        *["## Diverges as something else", "", "The cells with an `o`.", "", *_table(otherwise(matrix, known))],
        *["## New", "", new, "", *_listed(alarms(matrix, known)), ""],
        *["## Incidents", "", *_incidents(known)],
        *["## Empty cells", "", *_table(empty(matrix, known))],
        *["## Not told apart", "", *_wrapped(f"{UNTOLD} {_TRIAGED}"), "", *_listed(untold(matrix))],
    ]
    return "\n".join(lines) + "\n"


def _linked(scenario: Scenario) -> str:
    parts = head(scenario)
    number = f"[{parts.number}]({released().pulls}{parts.number})" if parts.number else ""
    return parts.before + number + parts.after


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table and an empty line; a word if it has no rows."""
    if not rows:
        return ["Nothing.", ""]
    return [_row(rows[0]), _row(["---"] * len(rows[0])), *map(_row, rows[1:]), ""]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(' '.join(cell.split()).replace('|', '/') for cell in cells)} |"


def _listed(lines: Sequence[str]) -> list[str]:
    return [f"- {' '.join(line.split())}" for line in lines] or ["Nothing."]


def _incidents(known: Sequence[Scenario]) -> list[str]:
    rows = [["tape", "incident", "family", "the record says", "mechanism"]]
    rows += [[f"`{it.name}`", it.incident, it.family, said_words(it.said), it.mechanism] for it in ordered(known)]
    return _table(rows)


def check_markdown(path: Path) -> None:
    """Raise KeepError unless `write_markdown` can put the table there without taking anything away."""
    text = _read(path)
    if MARKS[0] in text and MARKS[1] not in text.partition(MARKS[0])[2]:
        raise KeepError(f"{path} has the line {MARKS[0]!r} and not {MARKS[1]!r}")
    if text.strip() and MARKS[0] not in text and not text.startswith(TITLE):
        raise KeepError(
            f"{path} is somebody's: it is no page of the matrix, and has no line {MARKS[0]!r} for the table"
        )


def write_markdown(path: Path, matrix: Matrix, known: Sequence[Scenario]) -> None:
    """Write the page, or, into a file that has `MARKS`, the table between them.

    Raises:
        KeepError: the file cannot be read or written, or is somebody's.
    """
    check_markdown(path)
    first, last = MARKS
    before, found, rest = _read(path).partition(first)
    after = rest.partition(last)[2]
    write(path, f"{before}{first}\n{readme(matrix, known)}{last}{after}" if found else page(matrix, known))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") if path.exists() else ""
    except (OSError, ValueError) as error:
        raise KeepError(f"{path} cannot be read ({error})") from None
