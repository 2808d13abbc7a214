"""What a campaign may spend, and what it saw."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ..core.divergence import Divergence
from ..core.tape import Tape
from ..targets.base import Profile

__all__ = ["Budget", "Found", "Results"]


@dataclass(frozen=True)
class Budget:
    """When a campaign ends: after `tapes` tapes, `seconds` seconds with a loaded target, or at the first divergence.

    With `first`, tapes with smaller numbers than the diverging one are still played, and later ones do not
    count, so that the results are the same on any number of workers.
    """

    tapes: int | None = None
    seconds: float | None = None
    first: bool = False


@dataclass(frozen=True)
class Found:
    """A tape that diverged."""

    index: int
    divergence: Divergence
    tape: Tape


@dataclass
class Results:
    """What a campaign saw.

    Attributes:
        found: for each kind of divergence (class, check, pool, policy, event, and the event that
            made a loc stale) the tape with the smallest number, in the order of numbers.
        skipped: events that did not apply.
        diverged: tapes that diverged.
        seen: situation -> how often it happened.
        interrupted: somebody ended the campaign before its budget was spent.
        notes: what people should know, one line each.
    """

    profiles: list[Profile] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    tapes: int = 0
    events: int = 0
    skipped: int = 0
    diverged: int = 0
    seconds: float = 0.0
    seen: Counter[str] = field(default_factory=Counter)
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)
