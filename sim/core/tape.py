"""The tape: a config and a list of events; and the verdict on a tape that was played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...models.config import Config
from .divergence import Divergence
from .event import Event

__all__ = ["Tape", "Verdict"]


@dataclass(frozen=True)
class Tape:
    """A config, and the events that are played on the model and on the target.

    Attributes:
        config: the cache to build.
        events: the steps, in order. Whether they keep the cache's contracts is checked elsewhere.
        provenance: where the tape comes from (seed, target, class found, incident, ...), as JSON
            values; for people and reports only. None if unknown.
    """

    config: Config
    events: tuple[Event, ...]
    provenance: Mapping[str, object] | None = field(default=None, hash=False)


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
