"""The outcome of a gate: cases with their verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..findings.explain import fact
from ..findings.finding import Finding
from ..targets.base import Scope
from .accepted import Entry
from .checkout import Subject

__all__ = ["VERDICTS", "Case", "GateResult", "Place", "Played"]

VERDICTS: dict[str, str] = {
    "new": "diverges, and nothing that is known does so",
    "back": "an incident that the base does not show",
    "known": "diverges, and so does the base, or it was accepted",
    "silent": "does not diverge",
    "unplayable": "cannot be played on this target",
}
"""Verdict -> its meaning. The first two fail the gate."""

SCENARIOS = "scenarios"
KEPT = "kept tapes"


@dataclass(frozen=True)
class Place:
    """A line of the target's source that a diverging tape runs, and why it is named.

    Attributes:
        path: relative to the folder of the target's package.
    """

    path: str
    line: int
    why: str


@dataclass(frozen=True)
class Case:
    """One tape and its verdict.

    Attributes:
        group: scenarios, kept tapes, or the scope of the campaign that found it.
        name: its name in the group.
        verdict: one of `VERDICTS`.
        why: why it is known, or cannot be played.
        finding: the divergence with its tape, or None.
        scenario: the scenario's name, or None.
        saved: path of the saved tape, or None.
        places: where to look.
    """

    group: str
    name: str
    verdict: str
    why: str = ""
    finding: Finding | None = None
    scenario: str | None = None
    saved: str | None = None
    places: tuple[Place, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether it fails the gate."""
        return self.verdict in ("new", "back")

    @property
    def title(self) -> str:
        """What it is, in one line."""
        if self.finding is None:
            return self.name
        told = f"{self.finding.divergence.kind}: {fact(self.finding.divergence)}"
        return f"{self.name}: {told}" if self.scenario is not None or self.group == KEPT else told


@dataclass
class Played:
    """The random tapes of one scope."""

    scope: Scope
    tapes: int = 0
    events: int = 0
    diverged: int = 0


@dataclass
class GateResult:
    """Everything that a gate found out.

    Attributes:
        base: names of what is known.
        stale: accepted findings that no longer diverge.
        warnings: what the result does not say, one line each.
        interrupted: not all was played.
    """

    subject: Subject
    release: str | None
    seed: int
    base: Sequence[str] = ()
    cases: list[Case] = field(default_factory=list)
    played: list[Played] = field(default_factory=list)
    stale: list[Entry] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def failures(self) -> list[Case]:
        """The cases that fail the gate."""
        return [case for case in self.cases if case.fails]

    @property
    def tapes(self) -> int:
        """Random tapes that were played."""
        return sum(it.tapes for it in self.played)

    def count(self, verdict: str, group: str | None = None) -> int:
        """Return the number of cases with a verdict."""
        return sum(case.verdict == verdict and group in (None, case.group) for case in self.cases)
