"""TABLES"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median_high

from ..tapes.scenarios import Said, Scenario
from ..targets.registry import short_name
from .hunt import scope_of
from .measurements import HuntKey, Matrix, Replayed, Sighting
from .record import Disagreement, disagreement, hunted, is_known, news, places, scopes, seen_there

__all__ = [
    "LEGEND", "TAPE_NUMBERS", "UNREPORTED", "UNTOLD", "Cell", "cell_of", "empty", "footnotes", "head",
    "label", "measured", "ordered", "otherwise", "quiet_caption", "quiet_rows", "quiet_total", "ranges",
    "said_words", "short", "untold",
]  # fmt: skip


_NAME = re.compile(r"pr(\d+)-(.*)")

_LONG = 3
"""Releases from which on a row of them is said by its first and last."""


@dataclass(frozen=True)
class Head:
    """The head of a row in three parts.

    Attributes:
        before: what stands in front of the number.
        number: the public one; empty if there is none.
        after: what stands behind it.
    """

    before: str
    number: str
    after: str


def head(scenario: Scenario) -> Head:
    """The public number, whether the bug was reported, and what it is about.

    Where the record says nothing of releases, nobody reported the bug; a number is then the one that made it possible.
    """
    found = _NAME.fullmatch(scenario.name)
    number, name = (found[1], found[2]) if found else ("", scenario.name)
    about = f": {name.replace('-', ' ')}"
    if scenario.said is not None:
        return Head("", number, about if number else about.removeprefix(": "))
    return Head("since ", number, f", unreported{about}") if number else Head("", "", f"unreported{about}")


def label(scenario: Scenario) -> str:
    """The head of a row as plain text."""
    parts = head(scenario)
    return parts.before + parts.number + parts.after


def ordered(known: Sequence[Scenario]) -> list[Scenario]:
    """In the order given, but each behind the tapes that its text refers to."""
    placed: dict[str, Scenario] = {}
    for scenario in known:
        placed.update((it.name, it) for it in _behind(scenario, known, {scenario.name}) if it.name not in placed)
    return list(placed.values())


def _behind(scenario: Scenario, known: Sequence[Scenario], seen: set[str]) -> Iterator[Scenario]:
    """Whatever a text refers to, whatever those refer to, and the scenario itself."""
    for other in known:
        if other.name not in seen and re.search(rf"(?<![\w-]){re.escape(other.name)}(?![\w-])", scenario.mechanism):
            seen.add(other.name)
            yield from _behind(other, known, seen)
    yield scenario


def ranges(targets: Collection[str], releases: Sequence[str]) -> str:
    """Some of the releases in their order; of those in a row the first and the last."""
    parts = []
    for there, run in groupby(releases, lambda target: target in targets):
        names = [short_name(target) for target in run]
        if there:
            parts += [f"{names[0]} to {names[-1]}"] if len(names) >= _LONG else names
    return ", ".join(parts)


def said_words(said: Said | None) -> str:
    """What the public record says of releases."""
    if said is None:
        return "no public record"
    since = f"since {said.since}" if said.since is not None else "not said since when"
    return f"{since}, {f'fixed in {said.fixed}' if said.fixed is not None else 'no fix known'}"


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


Rows = list[tuple[str, ...]]
"""A table, its head first; empty if it would have nothing below that."""

_EVENT = re.compile(r"event \d+ \((\w+)\) cannot be played: ")

_ADVICE = "play it on a release"

_ELSEWHERE = "it wants pool"
"""How a part of a reason begins that is of another pool or policy than the tape's own."""


def otherwise(matrix: Matrix, known: Sequence[Scenario]) -> Rows:
    """Tapes that diverge as something else: on which releases, what they show there, and why if that is known."""
    rows: Rows = []
    for scenario in ordered(known):
        kinds: dict[tuple[str, str], list[str]] = {}
        for target, what in _cells(matrix, scenario, "other"):
            why = scenario.remark.get(short_name(target), "not known")
            kinds.setdefault((what, why), []).append(target)
        rows += [
            (label(scenario), ranges(targets, matrix.releases), what, why) for (what, why), targets in kinds.items()
        ]
    return [("row", "releases", "what the tape shows", "why"), *rows] if rows else []


def empty(matrix: Matrix, known: Sequence[Scenario]) -> Rows:
    """Why a tape cannot be played on some releases; one row a scenario."""
    rows: Rows = []
    for scenario in ordered(known):
        reasons: dict[str, list[str]] = {}
        for target, what in _cells(matrix, scenario, "unplayable"):
            reasons.setdefault(_reason(target, what), []).append(target)
        told = [f"{ranges(targets, matrix.releases)}: {why}" for why, targets in reasons.items()]
        rows += [(label(scenario), ". ".join(told))] if told else []
    return [("row", "why the tape cannot be played"), *rows] if rows else []


def _cells(matrix: Matrix, scenario: Scenario, verdict: str) -> list[tuple[str, str]]:
    """Target and words of a scenario's replays with a verdict."""
    replays = [(target, matrix.replays.get(target, {}).get(scenario.name)) for target in matrix.releases]
    return [(target, replayed.what) for target, replayed in replays if replayed and replayed.verdict == verdict]


def _reason(target: str, what: str) -> str:
    """Why a tape cannot be played, in the same words for each release, and no more than that."""
    same = what.replace("this target", "this release").replace(target, "this release")
    parts = [part for part in _EVENT.sub(r"\1: ", same).split("; ") if not part.startswith(_ADVICE)]
    return "; ".join([part for part in parts if not part.startswith(_ELSEWHERE)] or parts)


def untold(matrix: Matrix) -> list[str]:
    """What hunts found on releases that have a bug of the same level, and what looks like none that diverges there: one
    line a level and kind."""
    kinds: dict[tuple[str, str], set[str]] = {}
    for key, hunt in matrix.hunts.items():
        for _, what in news(matrix, key.target, hunt) if hunt.wanted else []:
            kinds.setdefault((str(key.scope), what), set()).add(key.target)
    return [f"{scope}, {ranges(kinds[scope, what], matrix.releases)}: {what}" for scope, what in sorted(kinds)]


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
