"""Where no tape diverges: one hunt a release and scope, with the first seed, for what nobody knows yet.

What such a hunt finds is new, unless it looks like a bug whose tape diverges on the same release in another scope: all
scopes of the engine level share the tree.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..tapes.scenarios import Scenario
from ..targets.scope import Scope
from .facts import Hunt, HuntKey, Matrix, Replayed
from .hunt import scope_of

__all__ = ["diverging", "hunted", "is_known", "news", "of_scope", "places", "scopes", "seeds_of", "seen_there"]


def scopes(known: Sequence[Scenario]) -> list[Scope]:
    """What is fuzzed: every scope that a scenario is of."""
    return list(dict.fromkeys(scope_of(scenario.tape) for scenario in known))


def of_scope(known: Sequence[Scenario], scope: Scope) -> list[Scenario]:
    """The scenarios of a scope."""
    return [scenario for scenario in known if scope_of(scenario.tape) == scope]


def diverging(matrix: Matrix, known: Sequence[Scenario], target: str, scope: Scope) -> tuple[str, ...]:
    """Scenarios of a scope whose tapes diverge on a target; none where it is quiet."""
    return tuple(it.name for it in of_scope(known, scope) if _verdict(matrix, target, it.name) == "diverges")


def seeds_of(matrix: Matrix, wanted: Sequence[str]) -> tuple[int, ...]:
    """Seeds of the hunts of a place: there is no median of what is not found."""
    return matrix.seeds if wanted else matrix.seeds[:1]


def places(matrix: Matrix, known: Sequence[Scenario]) -> list[tuple[str, Scope]]:
    """Target and scope of each quiet place: some tape can be played there, and none diverges."""
    return [
        (target, scope)
        for target in matrix.releases
        for scope in scopes(known)
        if not diverging(matrix, known, target, scope) and _is_played(matrix, of_scope(known, scope), target)
    ]


def _is_played(matrix: Matrix, known: Sequence[Scenario], target: str) -> bool:
    return any(_verdict(matrix, target, it.name) in ("silent", "other") for it in known)


def _verdict(matrix: Matrix, target: str, name: str) -> str:
    return matrix.replays.get(target, {}).get(name, Replayed("unplayable")).verdict


def hunted(matrix: Matrix, target: str, scope: Scope) -> Hunt | None:
    """The hunt of a quiet place; None if it was not made yet, or was made for something."""
    hunt = matrix.hunts.get(HuntKey(target, scope, matrix.seeds[0]))
    return hunt if hunt is not None and not hunt.wanted else None


def is_known(matrix: Matrix, target: str, name: str) -> bool:
    """Whether a scenario's tape diverges on a target, in whatever scope it is."""
    return _verdict(matrix, target, name) == "diverges"


def news(matrix: Matrix, target: str, hunt: Hunt) -> list[tuple[int, str]]:
    """What a hunt found that looks like nothing that diverges there: the first tape's number, and what it shows.

    Of a quiet place it is what nobody knows.
    """
    finds = [
        (seen.tape, f"looks like {name}") for name, seen in hunt.found.items() if not is_known(matrix, target, name)
    ]
    return sorted(finds + [(other.tape, f"{other.kind}: {other.what}") for other in hunt.others])


def seen_there(matrix: Matrix, target: str, scope: Scope) -> str:
    """What the hunt of a quiet place came to, in a few words; a question mark if it was not made yet."""
    hunt = hunted(matrix, target, scope)
    if hunt is None:
        return "?"
    known = ", ".join(name for name in sorted(hunt.found) if is_known(matrix, target, name))
    finds = ([f"known: {known}"] if known else []) + [f"NEW: {what}" for _, what in news(matrix, target, hunt)]
    ended = [f"ended early: {hunt.note}"] if hunt.note is not None else []
    return f"{hunt.tapes:,} tapes, {'; '.join((finds or ['silent']) + ended)}"
