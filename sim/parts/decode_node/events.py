"""What a scheduler does on a decode node, beside the engine level's events.

As there, an event that does not apply is skipped. `Decode`, `EvictWindow`, `Finish`, `Abort` and `Evict` are
the engine level's: here a step covers running and prebuilt requests, and a request can be aborted at any point.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...core.event import Event

__all__ = ["DISAGG_EVENTS", "DraftSlots", "Enqueue", "Preallocate", "Resume", "Retract", "Start", "Transfer"]


@dataclass(frozen=True)
class Enqueue(Event):
    """A request with this prompt and for `most` new tokens at most waits for slots."""

    kind = "enqueue"
    request: int
    tokens: tuple[int, ...]
    most: int


@dataclass(frozen=True)
class Preallocate(Event):
    """A round of preallocation (``pop_preallocated``)."""

    kind = "preallocate"


@dataclass(frozen=True)
class Transfer(Event):
    """The sender writes the next `pages` full pages of a prompt; with the last one come the SWA pages of its window
    and the first output token (``pop_transferred``)."""

    kind = "transfer"
    request: int
    pages: int
    token: int


@dataclass(frozen=True)
class Start(Event):
    """Everything whose KV is there becomes a batch that skips its prefill (``get_new_prebuilt_batch``)."""

    kind = "start"


@dataclass(frozen=True)
class Retract(Event):
    """A running request gives up its slots; its KV goes to the CPU (``retract_decode``, ``offload_kv_cache``)."""

    kind = "retract"
    request: int


@dataclass(frozen=True)
class Resume(Event):
    """Retracted requests get fresh slots and their KV back (``resume_retracted_reqs``, ``load_kv_cache``)."""

    kind = "resume"


@dataclass(frozen=True)
class DraftSlots(Event):
    """Running requests take slots for `count` draft tokens each and give them back by putting the free lists back
    (``backup_state``, ``restore_state``: EAGLE v1 with several branches takes more than it verifies)."""

    kind = "draft_slots"
    requests: tuple[int, ...]
    count: int


DISAGG_EVENTS: tuple[type[Event], ...] = (Enqueue, Preallocate, Transfer, Start, Retract, Resume, DraftSlots)
"""Every event type of its own."""
