"""Sentences and one table that all outputs share."""

from __future__ import annotations

from collections.abc import Sequence

from ..tapes.scenarios import Scenario
from ..targets.registry import short_name
from .facts import Matrix
from .notes import Rows
from .unexplained import hunted, is_known, news, places, scopes, seen_there

__all__ = ["TAPE_NUMBERS", "UNREPORTED", "UNTOLD", "measured", "quiet_caption", "quiet_rows", "quiet_total"]

UNREPORTED = (
    "A row that says unreported is of a bug that fuzzing found and of which no public report was found; a number there "
    "is of the PR that made it possible."
)
"""What the head of a row may say."""

TAPE_NUMBERS = "Tapes are counted from 0, as staleloc fuzz --seed S numbers them, and are the same on every machine."
"""How to read the number of a tape."""

UNTOLD = (
    "What hunts found on releases that have a bug of the same level, and what looks like none by class and words or "
    "shape: other faces of these bugs, or others."
)
"""What stands under the heading of what is not told apart."""


def measured(matrix: Matrix) -> str:
    """How the matrix was measured, in a sentence."""
    seeds = ", ".join(map(str, matrix.seeds))
    return (
        f"Measured with staleloc {matrix.version}: hunts of {matrix.budget} each, seeds {seeds}, one process a hunt, "
        f"on a machine with {matrix.cores} CPU cores."
    )


def quiet_caption(matrix: Matrix) -> str:
    """How to read the table of `quiet_rows`."""
    return (
        f"Releases and levels at which no tape diverges: one hunt each, of one seed ({matrix.seeds[0]}), for "
        f"{matrix.budget}. A scenario that is named there was found, and is known: its tape diverges on this release "
        "at another level. Any other find is new. An empty cell: a tape diverges there, or the release has nothing of "
        "the kind; ?: not fuzzed yet."
    )


def quiet_rows(matrix: Matrix, known: Sequence[Scenario]) -> Rows:
    """A table of the places where no tape diverges: what the hunt of each came to."""
    quiet = places(matrix, known)
    drawn = scopes(known)
    head = ("release", *(str(scope).removeprefix("the ") for scope in drawn))
    rows = []
    for target in dict.fromkeys(target for target, _ in quiet):
        cells = (seen_there(matrix, target, scope) if (target, scope) in quiet else "" for scope in drawn)
        rows.append((short_name(target), *cells))
    return [head, *rows] if rows else []


def quiet_total(matrix: Matrix, known: Sequence[Scenario]) -> list[str]:
    """One line: how much was played where no tape diverges, and whether there was something; none if nothing was."""
    hunts = [(target, hunt) for target, scope in places(matrix, known) if (hunt := hunted(matrix, target, scope))]
    if not hunts:
        return []
    new = sum(len(news(matrix, target, hunt)) for target, hunt in hunts)
    known_there = sum(any(is_known(matrix, target, name) for name in hunt.found) for target, hunt in hunts)
    came = f"{new or 'nothing'} new" if new or known_there else "silent"
    if known_there:
        came += f"; {known_there} of the hunts found a bug that is known there at another level"
    tapes = sum(hunt.tapes for _, hunt in hunts)
    many = f"{len(hunts)} hunt{'s' if len(hunts) > 1 else ''} of one seed and {matrix.budget} each"
    return [f"Fuzzed blind where no tape diverges ({many}): {tapes:,} tapes, {came}."]
