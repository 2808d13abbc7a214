"""Comparison of the measurements with the public record, and finds that no scenario explains.

A *quiet* place is a release and scope where no tape diverges that a campaign of this scope can draw. It has one hunt,
with the first seed. A find of that hunt is new unless it looks like a bug whose tape diverges on the same release in
another scope: all scopes of the engine level share the tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packaging.version import Version

from ..core.tape import Tape
from ..tapes.scenarios import Said, Scenario
from ..targets.base import Scope
from ..targets.registry import counterpart, family_of, short_name
from .measurements import Hunt, HuntKey, Matrix, Replayed

__all__ = [
    "Disagreement", "alarms", "claim", "counterpart_of", "disagreement", "diverging", "hunted", "is_known", "is_quiet",
    "is_shown", "news", "of_scope", "order", "places", "release_number", "scope_of", "scopes", "seeds_of", "seen_there",
]  # fmt: skip


def scope_of(tape: Tape) -> Scope:
    """Return the scope in which a campaign can draw such a tape."""
    return Scope(tape.config.level, tape.config.features)


def scopes(known: Sequence[Scenario]) -> list[Scope]:
    """Return every scope that a scenario has."""
    return list(dict.fromkeys(scope_of(scenario.tape) for scenario in known))


def of_scope(known: Sequence[Scenario], scope: Scope) -> list[Scenario]:
    """Return the scenarios of a scope."""
    return [scenario for scenario in known if scope_of(scenario.tape) == scope]


def diverging(matrix: Matrix, known: Sequence[Scenario], target: str, scope: Scope) -> tuple[str, ...]:
    """Return the scenarios of a scope whose tapes diverge on a target."""
    return tuple(it.name for it in of_scope(known, scope) if _verdict(matrix, target, it.name) == "diverges")


def seeds_of(matrix: Matrix, wanted: Sequence[str]) -> tuple[int, ...]:
    """Return the seeds of the hunts of a place. A quiet place has one: there is no median to compute."""
    return matrix.seeds if wanted else matrix.seeds[:1]


def places(matrix: Matrix, known: Sequence[Scenario]) -> list[tuple[str, Scope]]:
    """Return the target and scope of each quiet place where some tape can be played."""
    return [
        (target, scope)
        for target in matrix.releases
        for scope in scopes(known)
        if is_quiet(matrix, known, target, scope) and _is_played(matrix, of_scope(known, scope), target)
    ]


def is_quiet(matrix: Matrix, known: Sequence[Scenario], target: str, scope: Scope) -> bool:
    """Return whether no tape diverges on a target that a campaign of a scope can draw: with some of its features."""
    drawn = (it for it in scopes(known) if it == scope or (it.features and set(it.features) < set(scope.features)))
    return not any(diverging(matrix, known, target, it) for it in drawn)


def _is_played(matrix: Matrix, known: Sequence[Scenario], target: str) -> bool:
    return any(_verdict(matrix, target, it.name) in ("silent", "other") for it in known)


def _verdict(matrix: Matrix, target: str, name: str) -> str:
    return matrix.replays.get(target, {}).get(name, Replayed("unplayable")).verdict


def hunted(matrix: Matrix, target: str, scope: Scope) -> Hunt | None:
    """Return the hunt of a quiet place; None if it is missing or was made for a scenario."""
    hunt = matrix.hunts.get(HuntKey(target, scope, matrix.seeds[0]))
    return hunt if hunt is not None and not hunt.wanted else None


def is_known(matrix: Matrix, target: str, name: str) -> bool:
    """Return whether a scenario's tape diverges on a target, in any scope."""
    return _verdict(matrix, target, name) == "diverges"


def news(matrix: Matrix, target: str, hunt: Hunt) -> list[tuple[int, str]]:
    """Return the finds of a hunt that look like nothing that diverges on the target: number of the first tape, and
    words. In a quiet place they are new."""
    finds = [
        (seen.tape, f"looks like {name}") for name, seen in hunt.found.items() if not is_known(matrix, target, name)
    ]
    return sorted(finds + [(other.tape, f"{other.kind}: {other.what}") for other in hunt.others])


def seen_there(matrix: Matrix, target: str, scope: Scope) -> str:
    """Return the result of the hunt of a quiet place in a few words; a question mark if it is missing."""
    hunt = hunted(matrix, target, scope)
    if hunt is None:
        return "?"
    known = ", ".join(name for name in sorted(hunt.found) if is_known(matrix, target, name))
    finds = ([f"known: {known}"] if known else []) + [f"NEW: {what}" for _, what in news(matrix, target, hunt)]
    ended = [f"ended early: {hunt.note}"] if hunt.note is not None else []
    return f"{hunt.tapes:,} tapes, {'; '.join((finds or ['silent']) + ended)}"


@dataclass(frozen=True)
class Disagreement:
    """A difference between a measurement and the record.

    Attributes:
        text: the difference, in one sentence.
        alarm: whether a release diverges that should be fixed or was silent, and the scenario does not list it.
    """

    text: str
    alarm: bool = False


def release_number(target: str) -> Version | None:
    """Return the version in a target's name; None for a checkout or a wheel."""
    name = short_name(target)
    return Version(name) if name != target else None


def order(target: str) -> tuple[bool, Version, str]:
    """Return a sort key that puts releases first, oldest first."""
    number = release_number(target)
    return number is None, number or Version("0"), target


def claim(said: Said | None, target: str) -> str | None:
    """Return ``"has"``, ``"fixed"`` or ``"before"``, as the record says of a target; None if it says nothing."""
    number = release_number(target)
    if said is None or number is None:
        return None
    if said.fixed is not None and number >= Version(said.fixed):
        return "fixed"
    if said.since is None:
        return None
    return "has" if number >= Version(said.since) else "before"


def counterpart_of(target: str, version: str | None, replays: Mapping[str, Replayed], known: Sequence[Scenario]) -> str:
    """Return the release that a checkout or a wheel is judged as, or the target itself if none fits: by the version of
    its sources, or else the release that the scenarios' verdicts contradict least, the newest one of several.

    A checkout without a version that has lost a fix contradicts each release at least once, so the loss is seen.
    """
    found = counterpart(target, version)
    if found != target or release_number(target) is not None:
        return found
    family = family_of(target)
    releases = family.releases if family is not None else ()
    counts = [(_contradictions(releases[: number + 1], replays, known), -number) for number in range(len(releases))]
    return releases[-min(counts)[1]] if counts else target


def _contradictions(releases: Sequence[str], replays: Mapping[str, Replayed], known: Sequence[Scenario]) -> int:
    """Return how many verdicts the last of these releases cannot have."""
    return sum(
        it.name in replays
        and replays[it.name].verdict != "unplayable"
        and is_shown(it, releases) == (replays[it.name].verdict == "silent")
        for it in known
    )


def is_shown(scenario: Scenario, releases: Sequence[str]) -> bool | None:
    """Return whether the last of these releases has the bug: as it says of itself, or else as the newest one before it
    of which anything is known; None if nothing is."""
    for release in reversed(releases):
        if release in scenario.diverges:
            return True
        if release in scenario.silent or claim(scenario.said, release) in ("fixed", "before"):
            return False
    return None


def disagreement(scenario: Scenario, target: str, replayed: Replayed) -> Disagreement | None:
    """Return the difference between the result of a tape on a target and the record or the scenario; of a checkout,
    `target` is the release that it is judged as."""
    told = claim(scenario.said, target)
    text, alarm = None, False
    if replayed.verdict == "diverges":
        alarm = target not in scenario.diverges and (told == "fixed" or target in scenario.silent)
        if told == "fixed" and scenario.said is not None:
            text = f"diverges, although the record says that it is fixed since {scenario.said.fixed}"
        elif told == "before" and scenario.said is not None:
            text = f"diverges, although the record says that it has the bug only since {scenario.said.since}"
        elif target in scenario.silent:
            text = "diverges, although it was silent before"
    elif replayed.verdict == "silent" and target in scenario.diverges:
        text = "is silent, although it diverged before"
    elif replayed.verdict == "silent" and told == "has":
        text = "is silent, although the record says that it has the bug"
    elif replayed.verdict == "other" and target in scenario.silent:
        text, alarm = f"diverges with another class ({replayed.what}), although it was silent before", True
    elif replayed.verdict == "other" and told == "has":
        text = f"diverges with another class ({replayed.what}), although the record says that it has the bug"
    if text is None:
        return None
    why = scenario.remark.get(short_name(target))
    return Disagreement(f"{text}: {why}" if why is not None else text, alarm)


def alarms(matrix: Matrix, known: Sequence[Scenario]) -> list[str]:
    """Return one line for each new thing: a release that should be fixed, or a find where no tape diverges."""
    lines = []
    for scenario in known:
        for target in matrix.releases:
            replayed = matrix.replays.get(target, {}).get(scenario.name)
            record = matrix.judged.get(target, target)
            differs = None if replayed is None else disagreement(scenario, record, replayed)
            if differs is not None and differs.alarm:
                lines.append(f"{scenario.name} on {target}: {differs.text}")
    for key, hunt in matrix.hunts.items():
        if not hunt.wanted:
            place = f"{key.target}, {key.scope}, seed {key.seed}"
            lines += [f"{place}, tape {tape}: {what}" for tape, what in news(matrix, key.target, hunt)]
    return lines
