"""MEASUREMENTS"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..targets.scope import Scope

__all__ = [
    "BLIND", "MAX_SECONDS", "MAX_TAPES", "RELEASES", "SECONDS", "SEEDS", "VERDICTS", "HuntBudget", "Hunt", "HuntKey",
    "Matrix", "Other", "Replayed", "Sighting",
]  # fmt: skip

RELEASES = (
    *("0.5.11", "0.5.12", "0.5.12.post1", "0.5.13", "0.5.13.post1", "0.5.14", "0.5.15", "0.5.15.post1", "0.5.16"),
    *("0.5.17", "0.5.18", "0.5.19", "0.5.20", "0.5.21", "0.5.22", "0.5.23"),
)
"""SGLang releases from the oldest that can be driven to the newest one that was out when this was written."""

SECONDS = 60.0
"""HuntBudget of a hunt."""

MAX_SECONDS = 1e9
"""Largest budget of a hunt, about thirty years."""

MAX_TAPES = 10**9
"""The same in tapes."""

SEEDS = (0, 1, 2, 3, 4)
"""Seeds of the hunts on each release."""

BLIND = ("all", "quiet", "none")
"""Where releases are fuzzed: everywhere, only where no tape diverges, nowhere."""


VERDICTS: dict[str, str] = {
    "diverges": "the tape diverges, with the class that the scenario names",
    "other": "the tape diverges, but as something else",
    "silent": "the tape does not diverge",
    "unplayable": "the tape cannot be played there",
}
"""Verdict of a replay -> what it says."""


@dataclass(frozen=True)
class Replayed:
    """What a scenario's tape does on a release.

    Attributes:
        verdict: one of `VERDICTS`.
        what: the divergence's words, or why the tape cannot be played; empty if it is silent.
    """

    verdict: str
    what: str = ""


@dataclass(frozen=True)
class HuntBudget:
    """When a hunt ends that has not found everything: after so many tapes, or seconds of processor time."""

    tapes: int | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        return f"{self.tapes} tapes" if self.tapes is not None else f"{self.seconds:g} s"


@dataclass(frozen=True)
class Sighting:
    """The first tape of a hunt that shows an incident, and how long playing up to it took.

    Attributes:
        tape: its number in the campaign, from 0; the same everywhere.
        seconds: of processor time, for people; loading the target and shrinking are not counted.
    """

    tape: int
    seconds: float = field(compare=False)


@dataclass(frozen=True)
class Other:
    """The first tape of a hunt that shows something which looks like no scenario of its scope.

    Attributes:
        kind: class of the divergence.
        check: the check that saw it.
        what: its words, with # for numbers.
        tape: the tape's number.
    """

    kind: str
    check: str
    what: str
    tape: int


@dataclass(frozen=True)
class HuntKey:
    """Which hunt: on a target, with what is in play, from a seed."""

    target: str
    scope: Scope
    seed: int


@dataclass(frozen=True)
class Hunt:
    """What a hunt came to.

    Attributes:
        wanted: scenarios whose tapes diverge on the target; the hunt ends when all of them were seen.
        drawn: digest, which changes when the generator, the target's profiles or the words of what is wanted do.
        tapes: tapes played.
        seconds: of processor time, playing them.
        found: scenario -> where it was seen first.
        others: what looks like no scenario, one a kind.
        note: why the hunt ended before its time, or None.
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
    """Everything that was measured so far.

    Attributes:
        seeds: seeds of the hunts, in order.
        budget: of each hunt.
        cores: CPUs of the machine.
        version: of staleloc.
        releases: targets, oldest first.
        replays: target -> scenario -> what its tape does there.
        hunts: the hunts that are done.
        absent: target -> why nothing could be measured on it.
    """

    seeds: tuple[int, ...]
    budget: HuntBudget
    cores: int
    version: str
    releases: list[str] = field(default_factory=list)
    replays: dict[str, dict[str, Replayed]] = field(default_factory=dict)
    hunts: dict[HuntKey, Hunt] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
