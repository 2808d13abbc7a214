"""What playing a tape showed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from staleloc.sim.divergence import Divergence

__all__ = ["Verdict"]


@dataclass(frozen=True)
class Verdict:
    """The outcome of one tape.

    Attributes:
        divergence: the first difference, or None.
        events: events played, the diverging one included.
        seen: situation -> how often it happened.
    """

    divergence: Divergence | None
    events: int
    seen: Counter[str]
