"""RECORD"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from packaging.version import Version

from ..tapes.scenarios import Said, Scenario
from ..targets.registry import short_name
from ..targets.scope import Scope
from .hunt import scope_of
from .measurements import Hunt, HuntKey, Matrix, Replayed

__all__ = [
    "Disagreement", "alarms", "claim", "disagreement", "diverging", "hunted", "is_known", "news", "of_scope",
    "order", "places", "release_number", "scopes", "seeds_of", "seen_there",
]  # fmt: skip


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


@dataclass(frozen=True)
class Disagreement:
    """What is seen on a release and what is said of it differ.

    Attributes:
        text: how, in one sentence.
        alarm: a release diverges that is said to be fixed or was silent, and the scenario does not know it yet.
    """

    text: str
    alarm: bool = False


def release_number(target: str) -> Version | None:
    """The version that a target's name holds; None for a checkout or a wheel."""
    name = short_name(target)
    return Version(name) if name != target else None


def order(target: str) -> tuple[bool, Version, str]:
    """A key that puts releases first, oldest first."""
    number = release_number(target)
    return number is None, number or Version("0"), target


def claim(said: Said | None, target: str) -> str | None:
    """``"has"`` or ``"fixed"`` or ``"before"``: what the record says of a target; None if it says nothing."""
    number = release_number(target)
    if said is None or number is None:
        return None
    if said.fixed is not None and number >= Version(said.fixed):
        return "fixed"
    if said.since is None:
        return None
    return "has" if number >= Version(said.since) else "before"


def disagreement(scenario: Scenario, target: str, replayed: Replayed) -> Disagreement | None:
    """How what the tape does on a target differs from what is said of it, by the record or by the scenario."""
    told = claim(scenario.said, target)
    text, alarm = None, False
    if replayed.verdict == "diverges":
        alarm = target not in scenario.diverges and (told == "fixed" or target in scenario.silent)
        if told == "fixed" and scenario.said is not None:
            text = f"diverges, and is said to be fixed since {scenario.said.fixed}"
        elif told == "before" and scenario.said is not None:
            text = f"diverges, and is said to have it since {scenario.said.since} only"
        elif target in scenario.silent:
            text = "diverges, and was silent before"
    elif replayed.verdict == "silent" and target in scenario.diverges:
        text = "is silent, and diverged before"
    elif replayed.verdict == "silent" and told == "has":
        text = "is silent, and is said to have it"
    elif replayed.verdict == "other" and target in scenario.silent:
        text, alarm = f"diverges as something else ({replayed.what}), and was silent before", True
    elif replayed.verdict == "other" and told == "has":
        text = f"diverges as something else ({replayed.what}), and is said to have it"
    if text is None:
        return None
    why = scenario.remark.get(short_name(target))
    return Disagreement(f"{text}: {why}" if why is not None else text, alarm)


def alarms(matrix: Matrix, known: Sequence[Scenario]) -> list[str]:
    """One line for each thing nobody knows yet: a release that should be fixed, or a find where no tape diverges."""
    lines = []
    for scenario in known:
        for target in matrix.releases:
            replayed = matrix.replays.get(target, {}).get(scenario.name)
            differs = None if replayed is None else disagreement(scenario, target, replayed)
            if differs is not None and differs.alarm:
                lines.append(f"{scenario.name} on {target}: {differs.text}")
    for key, hunt in matrix.hunts.items():
        if not hunt.wanted:
            place = f"{key.target}, {key.scope}, seed {key.seed}"
            lines += [f"{place}, tape {tape}: {what}" for tape, what in news(matrix, key.target, hunt)]
    return lines
