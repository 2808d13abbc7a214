"""What the public record says of a release, and whether that is what is seen there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from packaging.version import Version

from ..tapes.scenarios import Said, Scenario
from ..targets.registry import short_name
from .facts import Matrix, Replayed
from .unexplained import news

__all__ = ["Disagreement", "alarms", "claim", "disagreement", "order", "release_number"]


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
