"""The tape: a config and a list of events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...models.config import Config
from .event import Event

__all__ = ["Tape"]


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
