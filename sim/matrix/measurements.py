"""The data of the release matrix: replays, hunts and their budgets.

There is one replay for each cell, and one hunt for each release, scope and seed. A *hunt* is a campaign that knows no
scenario while it plays. Its divergences are compared with the scenarios afterwards, so that one hunt answers for every
incident of its scope.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..targets.base import Scope

__all__ = [
    "BLIND", "MAX_SECONDS", "MAX_TAPES", "SECONDS", "SEEDS", "VERDICTS", "HuntBudget", "Hunt", "HuntKey",
    "Matrix", "Other", "Replayed", "Sighting",
]  # fmt: skip

SECONDS = 60.0
"""Default budget of a hunt."""

MAX_SECONDS = 1e9
"""Largest budget of a hunt, about thirty years."""

MAX_TAPES = 10**9
"""Largest budget of a hunt in tapes."""

SEEDS = (0, 1, 2, 3, 4)
"""Default seeds of the hunts on each release."""

BLIND = ("all", "quiet", "none")
"""Where releases are fuzzed: everywhere, only where no tape diverges, or nowhere."""


VERDICTS: dict[str, str] = {
    "diverges": "the tape diverges, with the class that the scenario names",
    "other": "the tape diverges, with another class",
    "silent": "the tape does not diverge",
    "unplayable": "the tape cannot be played",
}
"""Verdict of a replay -> its meaning."""


@dataclass(frozen=True)
class Replayed:
    """The result of a scenario's tape on a release.

    Attributes:
        verdict: one of `VERDICTS`.
        what: the words of the divergence, or why the tape cannot be played; empty if the tape does not diverge.
    """

    verdict: str
    what: str = ""


@dataclass(frozen=True)
class HuntBudget:
    """The limit of a hunt that does not find everything: tapes, or seconds of processor time."""

    tapes: int | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        return f"{self.tapes} tapes" if self.tapes is not None else f"{self.seconds:g} s"


@dataclass(frozen=True)
class Sighting:
    """The first tape of a hunt that shows an incident.

    Attributes:
        tape: its number in the campaign, from 0; the same on every machine.
        seconds: processor time of play up to that tape, for people; loading the target and shrinking do not count.
    """

    tape: int
    seconds: float = field(compare=False)


@dataclass(frozen=True)
class Other:
    """The first tape of a hunt with a divergence that looks like no scenario of its scope.

    Attributes:
        kind: class of the divergence.
        check: the check that reported it.
        what: its words, with # for numbers.
        tape: the tape's number.
    """

    kind: str
    check: str
    what: str
    tape: int


@dataclass(frozen=True)
class HuntKey:
    """The target, scope and seed of a hunt."""

    target: str
    scope: Scope
    seed: int


@dataclass(frozen=True)
class Hunt:
    """The result of a hunt.

    Attributes:
        wanted: scenarios whose tapes diverge on the target. The hunt ends when all of them were seen.
        drawn: a digest that changes when the generator, the target's profiles or the words of the wanted scenarios do.
        tapes: tapes that were played.
        seconds: processor time of play.
        found: scenario -> its first sighting.
        others: divergences that look like no scenario, one of each kind.
        note: why the hunt ended early, or None.
    """

    wanted: tuple[str, ...]
    drawn: str
    tapes: int
    seconds: float = field(compare=False)
    found: Mapping[str, Sighting]
    others: Sequence[Other] = ()
    note: str | None = None


@dataclass
class Matrix:
    """All measurements so far.

    Attributes:
        seeds: seeds of the hunts, in order.
        budget: budget of each hunt.
        cores: CPUs of the machine.
        version: version of staleloc.
        releases: targets, oldest first.
        replays: target -> scenario -> result of its tape.
        hunts: finished hunts.
        absent: target -> why nothing could be measured on it.
        judged: checkout or wheel -> the release whose public record holds for it.
    """

    seeds: tuple[int, ...]
    budget: HuntBudget
    cores: int
    version: str
    releases: list[str] = field(default_factory=list)
    replays: dict[str, dict[str, Replayed]] = field(default_factory=dict)
    hunts: dict[HuntKey, Hunt] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    judged: dict[str, str] = field(default_factory=dict)
