"""Make any list of events legal: clip spans to what is there, drop what still breaks a contract.

A shrinker may then delete or change events freely; what depended on them follows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...models.config import Config
from ..core.event import Event
from ..parts.allocator.ledger import Ledger
from ..targets.base import Profile

__all__ = ["repair"]


def repair(config: Config, events: Iterable[Any], profile: Profile) -> tuple[Event, ...]:
    """The events that remain legal on this cache, each as close to the given one as possible."""
    if config.level == "engine":
        return tuple(event for event in events if event.lacks(profile) is None)
    ledger = Ledger(config, profile.per_forward)
    kept: list[Event] = []
    for event in events:
        clipped = event.clip(ledger)
        if clipped is None or clipped.lacks(profile) or clipped.violation(ledger):
            continue
        ledger.apply(clipped)
        kept.append(clipped)
    return tuple(kept)
