"""What a schema cannot say of a matrix file: that its numbers and names fit together."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from packaging.version import InvalidVersion

from .facts import Budget, Hunt, HuntKey, Matrix
from .record import order

__all__ = ["flaw"]

_ROUNDING = 0.001
"""Files have seconds in milliseconds."""


def flaw(matrix: Matrix, known: Collection[str]) -> str | None:
    """The first thing that no run can have measured, in a few words; None if there is none.

    Args:
        known: names of all scenarios.
    """
    return next(_flaws(matrix, known), None)


def _flaws(matrix: Matrix, known: Collection[str]) -> Iterator[str]:
    yield from _of_releases(matrix)
    for target, replays in matrix.replays.items():
        yield from (f"{target}: {_unknown(name)}" for name in replays if name not in known)
    for key, hunt in matrix.hunts.items():
        place = f"{key.target}, {key.scope}, seed {key.seed}"
        yield from (f"{place}: {wrong}" for wrong in _of_hunt(matrix, key, hunt, known))


def _of_releases(matrix: Matrix) -> Iterator[str]:
    try:
        if matrix.releases != sorted(set(matrix.releases), key=order):
            yield "releases are not in their order, or twice there"
    except InvalidVersion as error:
        yield str(error)
    for target in sorted(set(matrix.releases) ^ set(matrix.replays)):
        yield f"{target} is among the {'releases' if target in matrix.releases else 'replays'} only"


def _of_hunt(matrix: Matrix, key: HuntKey, hunt: Hunt, known: Collection[str]) -> Iterator[str]:
    if key.target not in matrix.releases:
        yield "it is of no release of the file"
    if key.seed not in matrix.seeds:
        yield "it is of no seed of the file"
    yield from (_unknown(name) for name in [*hunt.wanted, *hunt.found] if name not in known)
    seen = [it.tape for it in hunt.found.values()] + [it.tape for it in hunt.others]
    yield from (f"tape {tape} was found among {hunt.tapes}" for tape in seen if tape >= hunt.tapes)
    yield from (
        f"found after {it.seconds} s of {hunt.seconds}" for it in hunt.found.values() if it.seconds > hunt.seconds
    )
    if matrix.budget.tapes is not None and hunt.tapes > matrix.budget.tapes:
        yield f"{hunt.tapes} tapes were played of {matrix.budget}"
    found_all = hunt.wanted and all(name in hunt.found for name in hunt.wanted)
    if hunt.note is None and not found_all and not _is_spent(matrix.budget, hunt):
        yield f"it ended after {hunt.tapes} tapes and {hunt.seconds} s, found not all, and does not say why"


def _is_spent(budget: Budget, hunt: Hunt) -> bool:
    if budget.tapes is not None:
        return hunt.tapes == budget.tapes
    return hunt.seconds + _ROUNDING >= (budget.seconds or math.inf)


def _unknown(name: str) -> str:
    return f"no scenario is called {name}"
