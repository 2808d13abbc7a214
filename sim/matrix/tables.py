"""Tables and sentences that all outputs of the matrix share: rows, cells, footnotes and captions."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median_high

from ..tapes.scenarios import Said, Scenario
from ..targets.registry import short_name
from .measurements import HuntKey, Matrix, Replayed, Sighting
from .record import Disagreement, disagreement, hunted, is_known, news, places, scope_of, scopes, seen_there

__all__ = [
    "LEGEND", "TAPE_NUMBERS", "UNREPORTED", "UNTOLD", "Cell", "cell_of", "empty", "footnotes", "head",
    "label", "measured", "ordered", "otherwise", "quiet_caption", "quiet_rows", "quiet_total", "ranges",
    "said_words", "short", "untold",
]  # fmt: skip


_NAME = re.compile(r"pr(\d+)-(.*)")

_LONG = 3
"""Number of consecutive releases from which on only the first and last are named."""


@dataclass(frozen=True)
class Head:
    """The head of a row in three parts.

    Attributes:
        before: text before the number.
        number: the public number; empty if there is none.
        after: text after it.
    """

    before: str
    number: str
    after: str


def head(scenario: Scenario) -> Head:
    """Return the public number, whether the bug was reported, and its subject.

    If the record does not mention releases, the bug was not reported; a number is then that of the PR that made it
    possible.
    """
    found = _NAME.fullmatch(scenario.name)
    number, name = (found[1], found[2]) if found else ("", scenario.name)
    about = f": {name.replace('-', ' ')}"
    if scenario.said is not None:
        return Head("", number, about if number else about.removeprefix(": "))
    return Head("since ", number, f", unreported{about}") if number else Head("", "", f"unreported{about}")


def label(scenario: Scenario) -> str:
    """Return the head of a row as plain text."""
    parts = head(scenario)
    return parts.before + parts.number + parts.after


def ordered(known: Sequence[Scenario]) -> list[Scenario]:
    """Return the scenarios in the given order, but each after the tapes that its text refers to."""
    placed: dict[str, Scenario] = {}
    for scenario in known:
        placed.update((it.name, it) for it in _behind(scenario, known, {scenario.name}) if it.name not in placed)
    return list(placed.values())


def _behind(scenario: Scenario, known: Sequence[Scenario], seen: set[str]) -> Iterator[Scenario]:
    """Yield the scenarios that a text refers to, directly or indirectly, and then the scenario itself."""
    for other in known:
        if other.name not in seen and re.search(rf"(?<![\w-]){re.escape(other.name)}(?![\w-])", scenario.mechanism):
            seen.add(other.name)
            yield from _behind(other, known, seen)
    yield scenario


def ranges(targets: Collection[str], releases: Sequence[str]) -> str:
    """Return some of the releases in order, with runs shortened to the first and last."""
    parts = []
    for there, run in groupby(releases, lambda target: target in targets):
        names = [short_name(target) for target in run]
        if there:
            parts += [f"{names[0]} to {names[-1]}"] if len(names) >= _LONG else names
    return ", ".join(parts)


def said_words(said: Said | None) -> str:
    """Return what the public record says of releases."""
    if said is None:
        return "no public record"
    since = f"since {said.since}" if said.since is not None else "since an unknown release"
    return f"{since}, {f'fixed in {said.fixed}' if said.fixed is not None else 'no fix known'}"


LEGEND: dict[str, str] = {
    "3 s": "the tape diverges, and blind fuzzing finds the bug after this many seconds: the median of the seeds, where "
    "a seed that does not find it within the budget counts as never",
    "3/5": "seeds that find it; without a number all of them, behind an `x` none",
    "x": "the tape diverges; at least half of the seeds do not find it within the budget",
    "x?": "the tape diverges; not all seeds were fuzzed yet",
    "o": "the tape diverges with another class",
    ".": "silent",
    "?": "not measured",
    "": "the tape cannot be played",
    "*": "differs from the public record: see below",
}
"""Text of a cell -> its meaning."""


@dataclass(frozen=True)
class Blind:
    """The results of the hunts of a cell.

    Attributes:
        hunts: number of hunts, one for each seed.
        hits: hunts that found the incident.
        tape: median number of the first tape that shows it, from 0; None if the median hunt finds nothing.
        seconds: median time of play up to that tape.
    """

    hunts: int
    hits: int
    tape: int | None
    seconds: float | None


@dataclass(frozen=True)
class Cell:
    """One scenario on one release.

    Attributes:
        replayed: the result of its tape; None if that was not measured.
        blind: the results of fuzzing; None until all seeds were fuzzed.
        differs: the difference from the record, or None.
    """

    replayed: Replayed | None
    blind: Blind | None
    differs: Disagreement | None


def cell_of(matrix: Matrix, scenario: Scenario, target: str) -> Cell:
    """Return the cell of a scenario on a target."""
    replayed = matrix.replays.get(target, {}).get(scenario.name)
    if replayed is None:
        return Cell(None, None, None)
    scope = scope_of(scenario.tape)
    keys = [HuntKey(target, scope, seed) for seed in matrix.seeds]
    hunts = [matrix.hunts[key] for key in keys if key in matrix.hunts]
    whole = len(hunts) == len(keys)
    blind = _blind([hunt.found.get(scenario.name) for hunt in hunts]) if whole else None
    return Cell(replayed, blind, disagreement(scenario, matrix.judged.get(target, target), replayed))


def _blind(seen: Sequence[Sighting | None]) -> Blind:
    """Return the median over the seeds. A seed without a find counts as never."""
    tape = median_high([math.inf if it is None else it.tape for it in seen])
    seconds = median_high([math.inf if it is None else it.seconds for it in seen])
    found = math.isfinite(tape)
    hits = sum(it is not None for it in seen)
    return Blind(len(seen), hits, int(tape) if found else None, seconds if found else None)


def short(cell: Cell, tapes: bool = False) -> str:
    """Return the text of a cell, see `LEGEND`; with `tapes` it has the number of a tape in place of seconds."""
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
    """Return one line for each difference from the record, and for each release that could not be measured."""
    lines = [f"{target}: {why}" for target, why in matrix.absent.items()]
    lines += [f"{target} is judged as {release}" for target, release in sorted(matrix.judged.items())]
    for scenario in known:
        for target in matrix.releases:
            differs = cell_of(matrix, scenario, target).differs
            if differs is not None:
                alarm = "NEW: " if differs.alarm else ""
                lines.append(f"{alarm}{scenario.name} on {target} {differs.text}")
    return lines


Rows = list[tuple[str, ...]]
"""A table with its head first; empty if it has no other row."""

_EVENT = re.compile(r"event \d+ \((\w+)\) cannot be played: ")

_ADVICE = "play it on a release"

_ELSEWHERE = "it wants pool"
"""Beginning of a reason that concerns a pool or policy other than that of the tape."""


def otherwise(matrix: Matrix, known: Sequence[Scenario]) -> Rows:
    """Return the tapes that diverge as something else: releases, words, and the reason if known."""
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
    """Return for each scenario why its tape cannot be played on some releases."""
    rows: Rows = []
    for scenario in ordered(known):
        reasons: dict[str, list[str]] = {}
        for target, what in _cells(matrix, scenario, "unplayable"):
            reasons.setdefault(_reason(target, what), []).append(target)
        told = [f"{ranges(targets, matrix.releases)}: {why}" for why, targets in reasons.items()]
        rows += [(label(scenario), ". ".join(told))] if told else []
    return [("row", "why the tape cannot be played"), *rows] if rows else []


def _cells(matrix: Matrix, scenario: Scenario, verdict: str) -> list[tuple[str, str]]:
    """Return target and words of a scenario's replays with a verdict."""
    replays = [(target, matrix.replays.get(target, {}).get(scenario.name)) for target in matrix.releases]
    return [(target, replayed.what) for target, replayed in replays if replayed and replayed.verdict == verdict]


def _reason(target: str, what: str) -> str:
    """Return why a tape cannot be played, in words that do not depend on the release."""
    same = what.replace("this target", "this release").replace(target, "this release")
    parts = [part for part in _EVENT.sub(r"\1: ", same).split("; ") if not part.startswith(_ADVICE)]
    return "; ".join([part for part in parts if not part.startswith(_ELSEWHERE)] or parts)


def untold(matrix: Matrix) -> list[str]:
    """Return the finds on releases that have a bug of the same level but that look like no bug that diverges there: one
    line for each scope and kind."""
    kinds: dict[tuple[str, str], set[str]] = {}
    for key, hunt in matrix.hunts.items():
        for _, what in news(matrix, key.target, hunt) if hunt.wanted else []:
            kinds.setdefault((str(key.scope), what), set()).add(key.target)
    return [f"{scope}, {ranges(kinds[scope, what], matrix.releases)}: {what}" for scope, what in sorted(kinds)]


UNREPORTED = (
    'A row with "unreported" is a bug that fuzzing found and that has no known public report; its number is that of '
    "the PR that made it possible."
)
"""Meaning of the head of a row."""

TAPE_NUMBERS = "Tapes are counted from 0, as by staleloc fuzz --seed S, and are the same on every machine."
"""How to read the number of a tape."""

UNTOLD = (
    "Findings of hunts on releases that have a bug of the same level, which match no scenario by class, message or "
    "shape: other forms of these bugs, or other bugs."
)
"""Caption of the finds that are not told apart."""


def measured(matrix: Matrix) -> str:
    """Return one sentence on how the matrix was measured."""
    seeds = ", ".join(map(str, matrix.seeds))
    return (
        f"Measured with staleloc {matrix.version}: hunts of {matrix.budget} each, seeds {seeds}, one process for each "
        f"hunt, on a machine with {matrix.cores} CPU cores."
    )


def quiet_caption(matrix: Matrix) -> str:
    """Return the caption of `quiet_rows`."""
    return (
        f"Releases and levels at which no tape diverges: one hunt each, of one seed ({matrix.seeds[0]}), for "
        f"{matrix.budget}. A scenario that is named was found and is known: its tape diverges on this release at "
        "another level. Any other finding is new. An empty cell: a tape diverges, or the release has no such "
        "level; ?: not fuzzed yet."
    )


def quiet_rows(matrix: Matrix, known: Sequence[Scenario]) -> Rows:
    """Return the table of quiet places and the results of their hunts."""
    quiet = places(matrix, known)
    drawn = scopes(known)
    head = ("release", *(str(scope).removeprefix("the ") for scope in drawn))
    rows = []
    for target in dict.fromkeys(target for target, _ in quiet):
        cells = (seen_there(matrix, target, scope) if (target, scope) in quiet else "" for scope in drawn)
        rows.append((short_name(target), *cells))
    return [head, *rows] if rows else []


def quiet_total(matrix: Matrix, known: Sequence[Scenario]) -> list[str]:
    """Return one line on all hunts of quiet places, or nothing if there are none."""
    hunts = [(target, hunt) for target, scope in places(matrix, known) if (hunt := hunted(matrix, target, scope))]
    if not hunts:
        return []
    new = sum(len(news(matrix, target, hunt)) for target, hunt in hunts)
    known_there = sum(any(is_known(matrix, target, name) for name in hunt.found) for target, hunt in hunts)
    came = f"{new or 'nothing'} new" if new or known_there else "silent"
    if known_there:
        came += f"; {known_there} of the hunts found a bug that is known at another level of the release"
    tapes = sum(hunt.tapes for _, hunt in hunts)
    many = f"{len(hunts)} hunt{'s' if len(hunts) > 1 else ''} of one seed and {matrix.budget} each"
    return [f"Fuzzed blind where no tape diverges ({many}): {tapes:,} tapes, {came}."]
