"""What cells have no room for, as rows of small tables: of what was measured, and of reasons that scenarios give."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..tapes.scenarios import Scenario
from ..targets.registry import short_name
from .facts import Matrix
from .rows import label, ordered, ranges
from .unexplained import news

__all__ = ["Rows", "empty", "otherwise", "untold"]

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
