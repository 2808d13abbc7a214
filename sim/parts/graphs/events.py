"""What an engine with captured graphs does, beside the engine level's events.

As there, an event that does not apply is skipped. What changes the mapping between a capture and a replay is
the engine level's: allocations, evictions, load-backs, requests that leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from ...core.event import Event
from ...targets.graphs import RUNNERS

__all__ = ["GRAPH_EVENTS", "Capture", "Draft", "Replay", "ReplayChunk", "Verify"]

_WORDS = MappingProxyType({"runner": RUNNERS})


@dataclass(frozen=True)
class Capture(Event):
    """A runner captures a forward of `size` tokens: warm-up runs on the dummy slot, then the capture itself."""

    kind = "capture"
    words = _WORDS
    runner: str
    size: int


@dataclass(frozen=True)
class Replay(Event):
    """A decode step of the running requests among these, each appending `token`, through a captured graph.

    Where none holds the batch, the step runs without.
    """

    kind = "replay"
    words = _WORDS
    runner: str
    requests: tuple[int, ...]
    token: int


@dataclass(frozen=True)
class ReplayChunk(Event):
    """The next `count` tokens of a prompt, through a captured graph, or without where none holds them."""

    kind = "replay_chunk"
    words = _WORDS
    runner: str
    request: int
    count: int


@dataclass(frozen=True)
class Draft(Event):
    """The draft computes these tokens for each of the requests, through its graph; its slots are taken back at once."""

    kind = "draft"
    requests: tuple[int, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Verify(Event):
    """The target computes what was drafted for these requests, through its graph, and accepts the first `accepted`
    tokens of it; the others are taken back."""

    kind = "verify"
    requests: tuple[int, ...]
    accepted: int


GRAPH_EVENTS: tuple[type[Event], ...] = (Capture, Replay, ReplayChunk, Draft, Verify)
"""Every event type of this feature."""
