"""What an engine-level target is: whole requests, a prefix tree, a host tier, behind integers.

The driver plays the scheduler: it decides who arrives, who is admitted, what is evicted when, and
when a transfer is over. The target turns that into the engine's own calls. Which nodes a match
finds, an insert splits or an eviction takes is the engine's choice; checks look at the raw state
afterwards and judge it by what every slot must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from ...models.config import Config
from .base import FreeSlots, Profile, Rows

__all__ = ["ENGINE_CALLS", "Admission", "Copying", "EngineTarget", "NodeView", "RequestView", "slots_in_flight"]

ENGINE_CALLS: tuple[str, ...] = (
    "arrive", "admit", "prefill", "decode", "checkpoint", "evict_window", "finish", "abort", "evict", "transfer_done",
    "flush",
)  # fmt: skip
"""Kinds of the events that an `EngineTarget` may execute."""


@dataclass(frozen=True)
class Admission:
    """What admitting a request came to.

    Attributes:
        cached: tokens of the prompt that need no prefill: on the device now or being loaded back.
        loaded: how many of them come from the host.
    """

    cached: int
    loaded: int


@dataclass(frozen=True)
class Copying:
    """A copy that is queued, or the part of it that has not run.

    Attributes:
        to_host: it reads device slots and writes host slots; otherwise the other way round.
        device: slots (never pages) on the device.
        host: slots on the host.
    """

    to_host: bool
    device: FreeSlots
    host: FreeSlots


def slots_in_flight(copies: Iterable[Copying]) -> tuple[FreeSlots, FreeSlots]:
    """All slots that some copies use: of the device, and of the host."""
    device, host = FreeSlots([], []), FreeSlots([], [])
    for copy in copies:
        for all_slots, used in ((device, copy.device), (host, copy.host)):
            all_slots.full.extend(used.full)
            all_slots.swa.extend(used.swa)
    return device, host


@dataclass(frozen=True)
class NodeView:
    """One node of the prefix tree as it is.

    Attributes:
        node: a name that the node keeps while it lives; the root is not listed.
        parent: name of its parent, None for a child of the root.
        tokens: its part of the key, in tokens.
        full: full locs of its tokens, None if they are not on the device.
        swa: SWA locs of its tokens, None for a tombstone or if they are not on the device.
        host_full: host slots of its full rows, None if there are none.
        host_swa: host slots of its SWA rows, None if there are none.
        full_locks: references that keep its full slots.
        swa_locks: references that keep its SWA slots.
        host_locks: references that keep its host slots and those alone; None if they cannot be seen.
        after: where keys are bigrams, the second token of its last key; None elsewhere.
    """

    node: int
    parent: int | None
    tokens: tuple[int, ...]
    full: tuple[int, ...] | None
    swa: tuple[int, ...] | None
    host_full: tuple[int, ...] | None
    host_swa: tuple[int, ...] | None
    full_locks: int
    swa_locks: int
    host_locks: int | None = None
    after: int | None = None


@dataclass(frozen=True)
class RequestView:
    """One running request as it is.

    Attributes:
        row: full locs of its tokens, as its row of ``req_to_token`` has them, up to what is allocated.
        shared: how many of them belong to the tree; the rest are the request's own.
        evicted: tokens from the front whose SWA slots the request gave up (window eviction).
        committed: with speculative decode, tokens that the scheduler knows to have KV; None elsewhere.
    """

    row: tuple[int, ...]
    shared: int
    evicted: int
    committed: int | None = None


class EngineTarget(Protocol):
    """The real engine code under test at the level of requests.

    Requests are small numbers. Tokens are small integers. A method raises whatever the engine
    raises; the driver calls that a crash. ``raw_`` methods only look. Transfers between device and
    host are queued; they run when the driver says so or when the engine itself waits for them (a
    forward waits for the layers it reads).
    """

    name: str
    adapter: tuple[str, ...]
    profiles: tuple[Profile, ...]

    def build(self, config: Config) -> None:
        """A new, empty cache: device pools, tree, and a host tier if `config.host_full_size` is not 0."""

    def admit(self, request: int, tokens: list[int]) -> Admission | None:
        """Match a prompt, lock what it found, start the load-back of what is on the host only.

        At least the last token is never taken from the cache (the engine needs its logits). None if
        the request cannot be admitted now; then nothing is held.
        """

    def prefill(self, request: int, count: int) -> list[int] | None:
        """Allocate the next `count` tokens of the prompt, evicting from the tree if need be; their full
        locs, or None if there is no room even so (nothing is held then)."""

    def decode(self, requests: list[int], tokens: list[int]) -> list[int] | None:
        """Append one token to each request, evicting from the tree if need be; one full loc each, or None
        if there is no room even so (nothing changes then)."""

    def write(self, requests: list[tuple[int, int, int]], layer: int, tags: list[int]) -> None:
        """The forward over these ``(request, start, stop)`` spans writes one row a token at a layer."""

    def read(self, request: int, start: int, stop: int, layer: int) -> Rows:
        """What attention reads of a request's tokens at a layer, through the engine's own translation."""

    def checkpoint(self, request: int) -> None:
        """The chunk is computed: insert what is there into the tree and go on from it
        (``cache_unfinished_req``)."""

    def evict_window(self, request: int) -> None:
        """Give up the SWA slots that no later token attends to, as the scheduler does between steps."""

    def finish(self, request: int) -> None:
        """The request is done: insert it, release it (``cache_finished_req``)."""

    def abort(self, request: int) -> None:
        """The request is gone without being inserted; also what a retraction does."""

    def evict(self, full: int, swa: int) -> None:
        """Ask the tree to give up this many tokens of each pool, as far as nothing locks them."""

    def transfer_done(self, count: int) -> None:
        """The oldest `count` queued transfers are over; then the engine polls for what has finished."""

    def pending(self) -> int:
        """How many transfers are queued."""

    def flush(self) -> None:
        """Reset the tree and the pools; no request is running."""

    def declared(self, kind: str, call: Callable[[Any, Any, Any], None]) -> None:
        """Hand the allocator, the pool and the prefix tree themselves to `call`; see `Target.declared`."""

    def raw_tree(self) -> list[NodeView]:
        """All nodes but the root, parents before children."""

    def raw_requests(self) -> dict[int, RequestView]:
        """Every admitted request."""

    def raw_mapping(self) -> list[int]:
        """See `Target.raw_mapping`."""

    def raw_free(self) -> FreeSlots:
        """See `Target.raw_free`."""

    def raw_contents(self, layer: int) -> Rows:
        """See `Target.raw_contents`."""

    def raw_host_free(self) -> FreeSlots:
        """What the host pools say is free, slot by slot; both empty without a host tier."""

    def raw_host_contents(self, layer: int) -> Rows:
        """Every host slot's row of one layer; empty without a host tier."""

    def in_flight(self) -> list[Copying]:
        """What queued transfers still read and write. A slot that one of them copies in several layers is
        listed once."""
