"""The protocols of engine-level targets: whole requests, a prefix tree, a host tier, captured graphs, in integers.

The driver plays the scheduler: it decides about arrivals, admissions, evictions and the end of transfers. The target
turns these decisions into the engine's own calls. The engine chooses the nodes that a match finds, an insert splits or
an eviction takes. Checks read the raw state afterwards and judge it by the expected content of every slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .base import CacheTarget, FreeSlots, Rows

__all__ = [
    "DECODES", "ENGINE_CALLS", "GRAPH_CALLS", "MAX_GRAPH_TOKENS", "PREFILLS", "RESULTS", "RUNNERS",
    "Admission", "Copying", "EngineTarget", "GraphTarget", "HostTierTarget", "Ledgers", "NodeView", "RequestTarget",
    "RequestView", "RunView", "Span", "slots_in_flight",
]  # fmt: skip

RUNNERS = ("standard", "piecewise", "breakable", "speculative")
"""Ways to capture: the whole forward, parts of it, one capture with breaks, a draft and its verification."""

DECODES = ("standard", "breakable")
"""Runners of a decode step."""

PREFILLS = ("piecewise", "breakable")
"""Runners of a chunk of a prompt."""

MAX_GRAPH_TOKENS = 128
"""Tokens of the largest forward that can be captured."""

RESULTS = ("prefill", "prebuilt", "decode")
"""Kinds of batches whose results are processed: prompts that were just computed, requests that were just started on a
decode node, and a decode step."""

Span = tuple[int, int, int]
"""A request and the tokens of it that a forward computes, from and to."""

ENGINE_CALLS: tuple[str, ...] = (
    "arrive", "admit", "prefill", "decode", "checkpoint", "evict_window", "finish", "abort", "evict", "transfer_done",
    "flush", "results",
)  # fmt: skip
"""Kinds of the events that an `EngineTarget` may execute."""

GRAPH_CALLS: tuple[str, ...] = ("capture", "replay", "replay_chunk", "draft", "verify")
"""Kinds of the events that a `GraphTarget` executes beside those of an `EngineTarget`."""


@dataclass(frozen=True)
class Admission:
    """The result of an admission.

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
    """The raw state of one node of the prefix tree.

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
        host_locks: references that keep its host slots and those alone; None if they cannot be seen. Of an engine that
            counts the two pools apart, those of its host full slots.
        host_swa_locks: references that keep its host SWA slots, of an engine that counts them apart.
        host_due: how many of `host_locks` the load-backs in flight will release; None if that cannot be seen.
        host_swa_due: the same of `host_swa_locks`.
        after: if keys are bigrams, the second token of its last key; None otherwise.
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
    host_swa_locks: int | None = None
    host_due: int | None = None
    host_swa_due: int | None = None


@dataclass(frozen=True)
class Ledgers:
    """The tree's own count of its tokens on the device. A scheduler admits requests by it.

    Attributes:
        full_evictable, swa_evictable: tokens whose slots in that pool nothing locks.
        full_protected, swa_protected: tokens whose slots something locks.
    """

    full_evictable: int
    full_protected: int
    swa_evictable: int
    swa_protected: int


@dataclass(frozen=True)
class RequestView:
    """The raw state of one running request.

    Attributes:
        row: full locs of its tokens, as its row of ``req_to_token`` has them, up to what is allocated.
        shared: how many of them belong to the tree; the rest are the request's own.
        evicted: tokens from the front whose SWA slots the request gave up (window eviction).
        committed: with speculative decode, tokens with KV that the scheduler knows; None otherwise.
        overflow: allocated tokens that do not fit the row; their locs were written behind its end.
        branch: keys up to which it is inserted next, where an engine first stores what others can branch off from; None
            if all of it is.
    """

    row: tuple[int, ...]
    shared: int
    evicted: int
    committed: int | None = None
    overflow: int = 0
    branch: int | None = None


@dataclass(frozen=True)
class RunView:
    """The writes of the last forward through a graph.

    Attributes:
        locs: for each layer the slots that were written, in the layer's own pool: the batch's tokens in
            order, then the graph's other writes.
    """

    locs: tuple[tuple[int, ...], ...]


class RequestTarget(CacheTarget, Protocol):
    """What every target of whole requests does and shows.

    Requests are small numbers. Tokens are small integers. A method raises the engine's exceptions;
    the driver reports them as crashes. ``raw_`` methods only read.
    """

    def write(self, requests: list[tuple[int, int, int]], layer: int, tags: list[int]) -> None:
        """The forward over these ``(request, start, stop)`` spans writes one row a token at a layer."""

    def read(self, request: int, start: int, stop: int, layer: int) -> Rows:
        """The rows of a request's tokens that attention reads at a layer, through the engine's own translation."""

    def evict(self, full: int, swa: int) -> None:
        """Evict this many tokens of each pool from the tree, as far as they are not locked."""

    def begin_results(self, kind: str) -> bool:
        """The results of a batch are processed from here on: the slots that requests give up are held back until
        `end_results`, if the engine opens a free group for batches of this kind.

        Args:
            kind: one of `RESULTS`.

        Returns:
            whether a free group is open.
        """

    def abort_result(self, request: int) -> None:
        """Drop a request whose result is an abort, as the engine does inside the group."""

    def end_results(self) -> None:
        """All results of the batch are processed: end the group that `begin_results` opened."""

    def raw_tree(self) -> list[NodeView]:
        """All nodes but the root, parents before children."""

    def raw_requests(self) -> dict[int, RequestView]:
        """Every admitted request."""

    def raw_ledgers(self) -> Ledgers | None:
        """The tree's count of its tokens; None without a tree, or if it does not count."""

    def raw_sanity(self, idle: bool) -> str | None:
        """What the engine's own check of its tree objects to. None if nothing, or if it has no such check.

        Args:
            idle: no request runs and no transfer is queued, which some such checks ask for.
        """


class HostTierTarget(Protocol):
    """A target whose prefix tree can have a host tier.

    Transfers between device and host are queued. They run when the driver requests it, or when the engine itself waits
    for them (a forward waits for the layers it reads).
    """

    def transfer_done(self, count: int) -> None:
        """The oldest `count` queued transfers are over; then the engine polls for what has finished."""

    def pending(self) -> int:
        """How many transfers are queued."""

    def raw_host_free(self) -> FreeSlots:
        """The free slots of the host pools; both empty without a host tier."""

    def raw_host_contents(self, layer: int) -> Rows:
        """Every host slot's row of one layer; empty without a host tier."""

    def in_flight(self) -> list[Copying]:
        """The slots that queued transfers still read and write. A slot that one of them copies in several layers is
        listed once."""


class EngineTarget(RequestTarget, HostTierTarget, Protocol):
    """The real engine code under test at the level of requests. `build` makes device pools, a tree, and a host tier if
    `Config.host_full_size` is not 0."""

    def admit(self, request: int, tokens: list[int]) -> Admission | None:
        """Match a prompt, lock the match, and start the load-back of the part that is only on the host.

        At least the last token is never taken from the cache (the engine needs its logits). None if
        the request cannot be admitted now; then nothing is held.
        """

    def prefill(self, request: int, count: int) -> list[int] | None:
        """Allocate the next `count` tokens of the prompt, evicting from the tree if need be; their full
        locs, or None if there is no room even so (nothing is held then)."""

    def decode(self, requests: list[int], tokens: list[int]) -> list[int] | None:
        """Append one token to each request, evicting from the tree if need be; one full loc each, or None
        if there is no room even so (nothing changes then)."""

    def checkpoint(self, request: int) -> None:
        """The chunk is computed: insert the computed tokens into the tree and continue from there
        (``cache_unfinished_req``)."""

    def evict_window(self, request: int) -> None:
        """Free the SWA slots that no later token attends to, as the scheduler does between steps."""

    def finish(self, request: int) -> None:
        """The request is done: insert it, release it (``cache_finished_req``)."""

    def abort(self, request: int) -> None:
        """Drop the request without inserting it; a retraction does the same."""

    def flush(self) -> None:
        """Reset the tree and the pools; no request is running."""


class GraphTarget(EngineTarget, Protocol):
    """An `EngineTarget` that runs forwards through captured graphs. `tags` hold, for each layer, one tag a token.

    A runner captures a forward for a number of tokens, ahead of any batch. Later a batch of at most so many tokens is
    written into the graph's static inputs, and the graph is replayed: the code that was captured does not run again.
    Rows of a graph that the batch does not fill go to the dummy slot.
    """

    def capture(self, runner: str, size: int) -> None:
        """Warm up, then capture a forward of `size` tokens; the speculative runner captures draft and target."""

    def replay(self, runner: str, spans: list[Span], tags: list[list[int]]) -> None:
        """Run the forward over these spans, whose tokens have slots, through the smallest graph that holds it. The
        speculative runner runs the target's."""

    def begin_draft(self, requests: list[int], count: int) -> list[int] | None:
        """Allocate `count` tokens for each request, for a draft alone. Their full locs, one request after the other,
        or None if there is no room (nothing is held then)."""

    def draft(self, tags: list[list[int]]) -> None:
        """Run the draft's graph over the tokens of `begin_draft`."""

    def end_draft(self) -> None:
        """Free the draft's allocation."""

    def append(self, requests: list[int], tokens: Sequence[int]) -> list[int] | None:
        """Append these tokens to each request and allocate them, evicting if need be. Their full locs, one request
        after the other, or None if there is no room (nothing changes then)."""

    def reject(self, request: int, count: int) -> None:
        """Take back the last `count` tokens of a request."""

    def raw_run(self) -> RunView:
        """The writes of the last `capture`, `replay`, `draft` or whole forward of `write`; a capture ends with a first
        replay."""
