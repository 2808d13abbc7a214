"""The matrix for a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..findings.text import columns
from ..tapes.scenarios import Scenario
from ..targets.registry import short_name
from .cells import LEGEND, cell_of, footnotes, short
from .facts import Matrix
from .record import alarms
from .rows import label, ordered
from .wording import measured, quiet_total

__all__ = ["terminal"]

_HITS = re.compile(r" \d+/\d+$")


def terminal(matrix: Matrix, known: Sequence[Scenario]) -> str:
    """The table, its legend and its footnotes."""
    rows = [("", *map(short_name, matrix.releases))]
    rows += [(label(it), *(short(cell_of(matrix, it, target)) for target in matrix.releases)) for it in ordered(known)]
    lines = columns(rows, indent="")
    used = {cell for row in rows[1:] for cell in row[1:]}
    legend = [(text or "(none)", says) for text, says in LEGEND.items() if _occurs(text, used)]
    lines += ["", *columns(legend, indent=""), "", *footnotes(matrix, known), *quiet_total(matrix, known)]
    lines += [*(f"NEW: {line}" for line in alarms(matrix, known)), measured(matrix)]
    return "\n".join(lines) + "\n"


def _occurs(text: str, cells: set[str]) -> bool:
    """Whether a text of the legend is in the table."""
    if text == "*":
        return any(cell.endswith("*") for cell in cells)
    unmarked = {cell.removesuffix("*") for cell in cells}
    if text == "3/5":
        return any(map(_HITS.search, unmarked))
    plain = {_HITS.sub("", cell) for cell in unmarked}
    return text in plain or (text == "3 s" and any(cell.endswith(" s") for cell in plain))
