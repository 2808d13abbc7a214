"""The verdict on a played tape."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .divergence import Divergence
from .event import Event

__all__ = ["Verdict"]


@dataclass(frozen=True)
class Verdict:
    """The outcome of one tape.

    Attributes:
        divergence: the first difference, or None.
        events: events played, the diverging one included.
        seen: situation -> how often it happened.
        effect: the events that applied, as they took effect, if some did not or not in full; None otherwise. Only
            events of the engine level may not apply.
        skipped: how many of the events played did not apply.
    """

    divergence: Divergence | None
    events: int
    seen: Counter[str]
    effect: tuple[Event, ...] | None = None
    skipped: int = 0
