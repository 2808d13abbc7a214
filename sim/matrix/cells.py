"""A cell: what a scenario's tape does on a release, and how soon blind fuzzing finds the incident there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_high

from ..tapes.scenarios import Scenario
from .facts import HuntKey, Matrix, Replayed, Sighting
from .hunt import scope_of
from .record import Disagreement, disagreement

__all__ = ["LEGEND", "Blind", "Cell", "cell_of", "footnotes", "short"]

LEGEND: dict[str, str] = {
    "3 s": "the tape diverges, and blind fuzzing finds the bug in so many seconds: the median of the seeds, and a seed "
    "that does not find it within the budget counts as never",
    "3/5": "so many of the seeds find it; where this is not said, all of them do, and behind an `x` none",
    "x": "the tape diverges; at least half of the seeds do not find it within the budget",
    "x?": "the tape diverges; not all seeds were fuzzed there yet",
    "o": "the tape diverges as something else",
    ".": "silent",
    "?": "not measured",
    "": "the tape cannot be played there",
    "*": "not what the public record says: see below",
}
"""Text of a cell -> what it says."""


@dataclass(frozen=True)
class Blind:
    """What the hunts of a cell came to.

    Attributes:
        hunts: how many there were, one a seed.
        hits: how many found the incident.
        tape: median number of the first tape that shows it, from 0; None if the median hunt does not.
        seconds: of playing up to that tape; the median too.
    """

    hunts: int
    hits: int
    tape: int | None
    seconds: float | None


@dataclass(frozen=True)
class Cell:
    """One scenario on one release.

    Attributes:
        replayed: what its tape does; None if that was not measured.
        blind: what fuzzing found; None as long as not all seeds were fuzzed there.
        differs: how this is not what the record says, or None.
    """

    replayed: Replayed | None
    blind: Blind | None
    differs: Disagreement | None


def cell_of(matrix: Matrix, scenario: Scenario, target: str) -> Cell:
    """The cell of a scenario on a target."""
    replayed = matrix.replays.get(target, {}).get(scenario.name)
    if replayed is None:
        return Cell(None, None, None)
    scope = scope_of(scenario.tape)
    keys = [HuntKey(target, scope, seed) for seed in matrix.seeds]
    hunts = [matrix.hunts[key] for key in keys if key in matrix.hunts]
    whole = len(hunts) == len(keys)
    blind = _blind([hunt.found.get(scenario.name) for hunt in hunts]) if whole else None
    return Cell(replayed, blind, disagreement(scenario, target, replayed))


def _blind(seen: Sequence[Sighting | None]) -> Blind:
    """The median over the seeds, of which some may not have found it; that counts as never."""
    tape = median_high([math.inf if it is None else it.tape for it in seen])
    seconds = median_high([math.inf if it is None else it.seconds for it in seen])
    found = math.isfinite(tape)
    hits = sum(it is not None for it in seen)
    return Blind(len(seen), hits, int(tape) if found else None, seconds if found else None)


def short(cell: Cell, tapes: bool = False) -> str:
    """A cell's text, see `LEGEND`; with `tapes` a tape's number takes the place of seconds."""
    return _plain(cell, tapes) + ("*" if cell.differs is not None else "")


def _plain(cell: Cell, tapes: bool) -> str:
    if cell.replayed is None:
        return "?"
    if cell.replayed.verdict != "diverges":
        return {"other": "o", "silent": ".", "unplayable": ""}[cell.replayed.verdict]
    if cell.blind is None:
        return "x?"
    return _found(cell.blind, tapes) + _hits(cell.blind)


def _found(blind: Blind, tapes: bool) -> str:
    if blind.seconds is None:
        return "x"
    return str(blind.tape) if tapes else _seconds(blind.seconds)


def _hits(blind: Blind) -> str:
    return f" {blind.hits}/{blind.hunts}" if 0 < blind.hits < blind.hunts else ""


def _seconds(seconds: float) -> str:
    return "<1 s" if seconds < 1 else f"{seconds:.0f} s"


def footnotes(matrix: Matrix, known: Sequence[Scenario]) -> list[str]:
    """One line for each cell that is not what the record says, and for each release that could not be had."""
    lines = [f"{target}: {why}" for target, why in matrix.absent.items()]
    for scenario in known:
        for target in matrix.releases:
            differs = cell_of(matrix, scenario, target).differs
            if differs is not None:
                alarm = "NEW: " if differs.alarm else ""
                lines.append(f"{alarm}{scenario.name} on {target} {differs.text}")
    return lines
