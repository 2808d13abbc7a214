"""The alphabet: every step a scheduler can ask of the cache, as one frozen dataclass each.

An event names requests, copies and positions, never raw slots: the same tape therefore runs on any
target, whatever slots its allocator hands out. A position counts a request's tokens from 0; spans
are half-open, ``[start, stop)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from ...core.event import Event, Span

__all__ = [
    "Event", "EVENTS", "KINDS", "Span",
    "Alloc", "AllocExtend", "AllocDecode", "AllocExtendSwaTail", "Free", "FreeSwa",
    "FreeGroupBegin", "FreeGroupEnd", "SetMapping", "RegisterMapping", "Backup", "Restore", "Clear",
    "BeginForward", "WriteKv", "ReadKv", "Translate", "EndForward", "CpuCopy", "LoadCpuCopy", "Move",
]  # fmt: skip


@dataclass(frozen=True)
class Alloc(Event):
    """Page size 1: append `count` tokens to a request (``alloc``). Too few free slots: nothing happens."""

    kind = "alloc"
    request: int
    count: int


@dataclass(frozen=True)
class AllocExtend(Event):
    """Append tokens to several requests in one call; `items` are ``(request, count)`` pairs (``alloc_extend``)."""

    kind = "alloc_extend"
    items: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class AllocDecode(Event):
    """Append one token to each request (``alloc_decode``)."""

    kind = "alloc_decode"
    requests: tuple[int, ...]


@dataclass(frozen=True)
class AllocExtendSwaTail(Event):
    """Append `count` tokens, with SWA slots for the last `tail` only (``alloc_extend_swa_tail``)."""

    kind = "alloc_extend_swa_tail"
    request: int
    count: int
    tail: int


@dataclass(frozen=True)
class Free(Event):
    """Free the request's tokens from `start` (a page boundary) to its end, in both pools (``free``)."""

    kind = "free"
    request: int
    start: int


@dataclass(frozen=True)
class FreeSwa(Event):
    """Free the SWA slots of a span and keep its full slots: window eviction (``free_swa``)."""

    kind = "free_swa"
    request: int
    start: int
    stop: int


@dataclass(frozen=True)
class FreeGroupBegin(Event):
    """Open a free group: slots freed inside it become available at its end (``free_group_begin``)."""

    kind = "free_group_begin"


@dataclass(frozen=True)
class FreeGroupEnd(Event):
    """Close the free group; without an open one, nothing happens (``free_group_end``)."""

    kind = "free_group_end"


@dataclass(frozen=True)
class SetMapping(Event):
    """Give the unmapped whole pages of a span fresh SWA slots, in place (``set_full_to_swa_mapping``)."""

    kind = "set_mapping"
    request: int
    start: int
    stop: int


@dataclass(frozen=True)
class RegisterMapping(Event):
    """Replace the mapping by a new tensor in which a span's pages have fresh SWA slots (``register_mapping``).

    An empty span registers an equal copy.
    """

    kind = "register_mapping"
    request: int
    start: int
    stop: int


@dataclass(frozen=True)
class Backup(Event):
    """Save the allocator's state before drafting (``backup_state``)."""

    kind = "backup"


@dataclass(frozen=True)
class Restore(Event):
    """Go back to the saved state; tokens allocated since are gone (``restore_state``)."""

    kind = "restore"


@dataclass(frozen=True)
class Clear(Event):
    """Flush the cache: every request is gone (``clear``)."""

    kind = "clear"


STORAGES = ("fresh", "reused", "view")
"""Where the locs of a batch live; see `BeginForward`."""


@dataclass(frozen=True)
class BeginForward(Event):
    """Start a forward that writes the tokens of `spans`.

    Attributes:
        storage: where the batch's loc tensor lives: ``"fresh"`` memory, the ``"reused"`` buffer of
            earlier forwards, or a ``"view"`` into it at `offset`.
        offset: elements before the view; 0 unless `storage` is ``"view"``.
        precomputed: the runner hands the pool a translation made up front (``set_swa_loc``).
    """

    kind = "begin_forward"
    words = MappingProxyType({"storage": STORAGES})
    spans: tuple[Span, ...]
    storage: str = "fresh"
    offset: int = 0
    precomputed: bool = False


@dataclass(frozen=True)
class WriteKv(Event):
    """Write the running batch's KV at one layer (``set_kv_buffer``)."""

    kind = "write_kv"
    layer: int


@dataclass(frozen=True)
class ReadKv(Event):
    """Read what attention reads at a layer: up to the batch's positions in a full layer, the window in an SWA one."""

    kind = "read_kv"
    layer: int


SOURCES = ("batch", "view", "fresh", "padded", "kept", "table")
"""What is translated; see `Translate`."""


@dataclass(frozen=True)
class Translate(Event):
    """Translate full locs to SWA locs (``translate_loc_from_full_to_swa``).

    Attributes:
        source: ``"batch"``: elements ``[start, stop)`` of the running batch's own tensor (`request`
            is 0 and means nothing); ``"fresh"``: a span of a request in fresh memory; ``"padded"``:
            the same with -1 ("none") appended; ``"view"``: a span in an unused part of the running
            batch's buffer; ``"kept"``: a tensor that the caller keeps, the same one whenever these
            locs are asked for; ``"table"``: two rows in fresh memory, as of a page table, with -1
            appended where the second would be shorter.
    """

    kind = "translate"
    words = MappingProxyType({"source": SOURCES})
    source: str
    request: int
    start: int
    stop: int

    def padding(self, count: int) -> list[int]:
        """What is appended to `count` locs."""
        return [-1] * (self.source == "padded" or (self.source == "table" and count % 2))


@dataclass(frozen=True)
class EndForward(Event):
    """The running forward is over."""

    kind = "end_forward"


@dataclass(frozen=True)
class CpuCopy(Event):
    """Copy a span's KV to the CPU under the name `copy` (``get_cpu_copy``): retraction."""

    kind = "cpu_copy"
    copy: int
    request: int
    start: int
    stop: int


@dataclass(frozen=True)
class LoadCpuCopy(Event):
    """Load a copy into the request's tokens from `start` on (``load_cpu_copy``): resumption."""

    kind = "load_cpu_copy"
    copy: int
    request: int
    start: int


@dataclass(frozen=True)
class Move(Event):
    """Move the KV of `count` tokens from position `source` on to position `target` on (``move_kv_cache``)."""

    kind = "move"
    request: int
    source: int
    target: int
    count: int


EVENTS: tuple[type[Event], ...] = (
    Alloc, AllocExtend, AllocDecode, AllocExtendSwaTail, Free, FreeSwa, FreeGroupBegin, FreeGroupEnd,
    SetMapping, RegisterMapping, Backup, Restore, Clear, BeginForward, WriteKv, ReadKv, Translate,
    EndForward, CpuCopy, LoadCpuCopy, Move,
)  # fmt: skip
"""Every allocator-level event type, in the order the documentation lists them."""

KINDS: tuple[str, ...] = tuple(event.kind for event in EVENTS)
"""Their names."""
