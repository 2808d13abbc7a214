"""The engine-level alphabet: what a scheduler does with whole requests.

Whether an event applies depends on how the target fared before (a prefill may have found no room),
so an event that does not apply is skipped; every sequence of them is a legal tape. The order a
scheduler keeps is in the play: a chunk is checkpointed before the next one, a request decodes once
its whole prompt is in, its window is evicted between steps only.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...core.event import Event

__all__ = [
    "ENGINE_EVENTS",
    "Abort", "Admit", "Arrive", "Checkpoint", "Decode", "Evict", "EvictWindow", "Finish", "Flush", "Prefill",
    "TransferDone",
]  # fmt: skip


@dataclass(frozen=True)
class Arrive(Event):
    """A request with this prompt waits."""

    kind = "arrive"
    request: int
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Admit(Event):
    """Match a waiting request's prompt, lock what is cached, load back what is on the host (``match_prefix``)."""

    kind = "admit"
    request: int


@dataclass(frozen=True)
class Prefill(Event):
    """Compute the next `count` tokens of a prompt: allocate, write every layer, read what attention reads."""

    kind = "prefill"
    request: int
    count: int


@dataclass(frozen=True)
class Decode(Event):
    """One step of the running requests among these; each appends `token`."""

    kind = "decode"
    requests: tuple[int, ...]
    token: int


@dataclass(frozen=True)
class Checkpoint(Event):
    """Insert a computed chunk into the tree (``cache_unfinished_req``)."""

    kind = "checkpoint"
    request: int


@dataclass(frozen=True)
class EvictWindow(Event):
    """A request gives up the SWA slots that no later token of it attends to."""

    kind = "evict_window"
    request: int


@dataclass(frozen=True)
class Finish(Event):
    """A running request is done and inserted (``cache_finished_req``)."""

    kind = "finish"
    request: int


@dataclass(frozen=True)
class Abort(Event):
    """A request is gone and not inserted: abort or retraction."""

    kind = "abort"
    request: int


@dataclass(frozen=True)
class Evict(Event):
    """The tree gives up this many tokens of each pool, as far as nothing locks them."""

    kind = "evict"
    full: int
    swa: int


@dataclass(frozen=True)
class TransferDone(Event):
    """The oldest `count` transfers between device and host are over."""

    kind = "transfer_done"
    count: int


@dataclass(frozen=True)
class Flush(Event):
    """Reset tree and pools, if no request is admitted (``flush_cache``)."""

    kind = "flush"


ENGINE_EVENTS: tuple[type[Event], ...] = (
    Arrive, Admit, Prefill, Decode, Checkpoint, EvictWindow, Finish, Abort, Evict, TransferDone, Flush,
)  # fmt: skip
"""Every engine-level event type."""
