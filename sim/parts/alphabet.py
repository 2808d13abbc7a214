"""Every event of both levels and of all features, by name."""

from __future__ import annotations

from ..core.event import Event
from .allocator.events import EVENTS
from .decode_node.events import DISAGG_EVENTS
from .engine.events import ENGINE_EVENTS
from .graphs.events import GRAPH_EVENTS
from .scheduler.events import SCHEDULER_EVENTS
from .speculative.events import SPEC_EVENTS

__all__ = ["ALPHABET", "BY_NAME"]

ALPHABET: tuple[type[Event], ...] = (
    *EVENTS,
    *ENGINE_EVENTS,
    *DISAGG_EVENTS,
    *GRAPH_EVENTS,
    *SPEC_EVENTS,
    *SCHEDULER_EVENTS,
)
"""Event types, in the order in which the documentation lists them."""

BY_NAME: dict[str, type[Event]] = {event.kind: event for event in ALPHABET}
"""Event name in a tape -> event type."""
