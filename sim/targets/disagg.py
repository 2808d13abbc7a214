"""The protocol of a decode node of a disaggregated deployment, in integers.

Prefill runs elsewhere. A request waits in a queue here until two budgets, one a pool, allow its slots
to be allocated up front; the sender is told which pages these are and writes the prompt's KV into
them; from then on the request decodes. When slots run short, running requests are retracted: their KV
goes to the CPU with a mask of the tokens that had an SWA slot, and comes back into fresh slots.

The driver plays the scheduler and the sender. It calls one method after the other as its events say,
in any order that the phase of a request allows::

    enqueue -> QUEUED --preallocate--> TRANSFERRING --arrived--> WAITING --start--> PREBUILT
    PREBUILT --decode--> RUNNING --retract--> RETRACTED --resume--> WAITING
    RUNNING or PREBUILT --finish--> gone;  abort is possible in every phase

A request's first output token comes with its KV from prefill; the KV of an output token is written by
the decode step that yields the next one. So a request with `n` prompt tokens and `k > 0` output tokens
has KV for `n + k - 1` tokens, and that many slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .engine import RequestTarget

__all__ = [
    "NODE_CALLS",
    "MAX_REQUESTS",
    "DisaggTarget",
    "OverAdmission",
    "Preallocated",
    "Preallocation",
    "Queues",
    "Rules",
]

NODE_CALLS: tuple[str, ...] = (
    "enqueue", "preallocate", "transfer", "start", "retract", "resume", "draft_slots", "decode", "evict_window",
    "finish", "abort", "evict", "results",
)  # fmt: skip
"""Kinds of the events that a `DisaggTarget` may execute on a decode node."""

MAX_REQUESTS = 8
"""Requests alive at once, in all phases together: a target has request slots for so many."""


class OverAdmission(Exception):
    """Raised if the engine cannot allocate an admitted request ("KV cache is full")."""


@dataclass(frozen=True)
class Rules:
    """A target's counting rules, where releases differ.

    Attributes:
        whole_pages: what a request needs is counted in whole pages (by SGLang 0.5.18, PR 33794).
        reserves_swa: what a request needs in the SWA pool includes the reserved decode tokens (from SGLang
            0.5.14 only with a prefix tree).
        swa_evictable: the SWA budget counts what the tree can give up (SGLang PRs 29662, 38634).
        swa_refreshed: after each admission the SWA budget is counted anew, as the full one is; otherwise what
            the request needed is taken off it.
        tail_after_prefix: behind a cached prefix only the tail gets SWA slots; otherwise every token does.
        whole_charged: where every token behind a prefix gets an SWA slot, the SWA budget is asked for that
            many and not for the tail alone.
        wide_tail: with a prefix tree the tail starts ``max(window, page) + 1`` tokens before the end.
        sender_skips_cached: the sender's window starts no earlier than what is cached.
        window_before: the window it counts with is that of the tokens before the one that attends, so one less than
            `Config.window`, at least 1 (SGLang's ``sliding_window_size``).
        asks_whole: without a prefix tree too, admission asks the full budget for whole pages (from SGLang 0.5.22).
        records_tail: a tail preallocation says in the evicted length which tokens got no SWA slot (from SGLang 0.5.14,
            PR 28085).
        adds_evictable: where no tail is used, the budget is the free slots of the smaller pool and the full tokens that
            the tree can give up (SGLang, PR 29662); otherwise each pool counts what its own tokens could give up.
        resumes_swa_anew: after each request that resumes the SWA budget is counted anew (from SGLang 0.5.19); otherwise
            what the request needed is taken off it.
        resumes_full_anew: the same for the full budget (from SGLang 0.5.21).
        leaves_a_token: no prompt is taken from the tree as a whole; in SGLang one is at page size 1, and its sender
            sends the first output token with no pages (``should_send_kv_chunk``).
        joins_at_once: a batch of started requests joins the running one before all else (SGLang, PR 19568).
    """

    whole_pages: bool = True
    reserves_swa: bool = False
    swa_evictable: bool = True
    swa_refreshed: bool = True
    tail_after_prefix: bool = False
    whole_charged: bool = True
    wide_tail: bool = False
    sender_skips_cached: bool = True
    window_before: bool = False
    asks_whole: bool = True
    records_tail: bool = True
    adds_evictable: bool = False
    resumes_swa_anew: bool = False
    resumes_full_anew: bool = False
    joins_at_once: bool = False
    leaves_a_token: bool = True


@dataclass(frozen=True)
class Preallocation:
    """A request that got its slots, and what the sender is told.

    Attributes:
        request: the request.
        cached: tokens at the front of its prompt that this node has already; the sender skips them.
        full: full pages (slots if the page size is 1) of the tokens from `cached` on, in order.
        swa: SWA pages of the tokens from the start of the sender's window on, in order. The sender's window
            starts at ``max(0, prompt - window)``, or ``max(cached, prompt - window)`` by
            `Rules.sender_skips_cached`, down to a page boundary.
        loaded: how many of the cached tokens come from the host, full rows or SWA rows.
    """

    request: int
    cached: int
    full: tuple[int, ...]
    swa: tuple[int, ...]
    loaded: int = 0


@dataclass(frozen=True)
class Preallocated:
    """The result of a round of preallocation.

    Attributes:
        admitted: the requests that got slots, in the order in which they did.
        failed: requests that the engine dropped for lack of room.
    """

    admitted: tuple[Preallocation, ...]
    failed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Queues:
    """The queues of requests, in the engine's own order.

    Attributes:
        queued: wait for slots.
        transferring: have slots; the sender writes.
        waiting: have their KV, and wait to be started.
        prebuilt: in a batch that was made of waiting requests and is in no queue; empty on an engine that
            merges it into the running batch at once.
        running: in the running batch.
        retracted: on the CPU, waiting to resume.
    """

    queued: tuple[int, ...]
    transferring: tuple[int, ...]
    waiting: tuple[int, ...]
    prebuilt: tuple[int, ...]
    running: tuple[int, ...]
    retracted: tuple[int, ...]


class DisaggTarget(RequestTarget, Protocol):
    """The real code of a decode node under test. The module's docstring has the order of calls.

    `Config.reserved_decode` tokens are reserved for each active request; with `Config.decode_tree` the node keeps a
    prefix tree, without it a request's slots die with it, `evict` is not called and `raw_tree` is empty. `raw_requests`
    has every request that holds slots; its `evicted` counts the front without SWA slots of a tail preallocation too.
    """

    def rules(self) -> Rules:
        """The counting rules of this target, for the cache that was built."""

    def enqueue(self, request: int, tokens: list[int], most: int) -> bool:
        """A request with this prompt, for `most` new tokens at most, waits for slots. False if the engine
        rejects it because no empty cache could hold it; then it is forgotten."""

    def preallocate(self) -> Preallocated:
        """Admit from the front of the queue what the budgets allow (``pop_preallocated``).

        Raises:
            OverAdmission: a request was admitted that cannot be allocated.
        """

    def receive(self, layer: int, slots: list[int], tags: list[int]) -> None:
        """The sender writes one row to each of these slots of a layer's own pool: SWA slots at an SWA layer,
        never translated."""

    def arrived(self, request: int, token: int) -> None:
        """The request's KV is there, and so is its first output token (``pop_transferred``)."""

    def start(self) -> None:
        """Make a batch of everything that waits (``get_new_prebuilt_batch``); with a tree, insert it."""

    def decode(self, requests: list[int], tokens: list[int]) -> list[int] | None:
        """Merge the prebuilt batch into the running one, then one step of these running requests.

        Each gets a slot for its newest token, evicting from the tree if need be, and then `tokens` as its new
        newest tokens. The full locs, one a request; None if there is no room even so (only the merge is done then).
        """

    def evict_window(self, request: int) -> None:
        """Free a running request's SWA slots that no later token attends to."""

    def retract(self, request: int) -> None:
        """Copy a running request's KV to the CPU, release its slots without inserting it, and queue it to resume;
        one that an empty node could not hold any more is gone then."""

    def resume(self) -> list[int]:
        """Give fresh slots to the front of the retracted requests, as far as the budgets allow, and load their
        copies (``resume_retracted_reqs``); which were resumed. They wait to be started.

        Raises:
            OverAdmission: see `preallocate`.
        """

    def draft_slots(self, requests: list[int], count: int) -> None:
        """Take slots for `count` draft tokens behind each of these running requests, if there is room, and put the
        free lists back as they were. Only where the profile has the event."""

    def finish(self, request: int) -> None:
        """A prebuilt or running request is done: with a tree, insert it; release it."""

    def abort(self, request: int) -> None:
        """Drop a request in any phase. If it was being transferred, the sender has stopped."""

    def raw_queues(self) -> Queues:
        """Where each request stands."""

    def raw_uses_tail(self) -> bool:
        """Whether this pool qualifies for tail preallocation."""

    def raw_tail(self, length: int) -> int:
        """Tokens at the end of so many that get SWA slots (``_swa_tail_len``)."""

    def raw_lengths(self, request: int) -> tuple[int, int]:
        """Full and SWA tokens to preallocate for a request (``_prealloc_kv_lens``)."""

    def raw_required(self, request: int) -> tuple[int, int]:
        """Full and SWA tokens that a request is charged, reserved ones included (``_prealloc_required_tokens``)."""

    def raw_retractable(self, request: int) -> int:
        """SWA tokens that retracting a request would free (``_swa_retractable_len``)."""

    def raw_active(self) -> int:
        """Requests that tokens are reserved for (``_active_req_count``)."""

    def raw_budgets(self, resuming: bool) -> tuple[int, int]:
        """Full and SWA tokens that may be handed out now: when retracted requests are resumed, or in a round of
        preallocation (``_swa_aware_allocatable_token_budgets``). Twice the one budget where no tail is used."""

    def raw_budgets_beside(self, requests: list[int]) -> tuple[int, int]:
        """The same for a round of preallocation, if these requests, which have just been started, had not joined the
        running batch yet. Only where `Rules.joins_at_once`."""

    def raw_saved(self) -> dict[int, tuple[bool, ...]]:
        """Retracted request -> for each token of its copy, whether the copy says that it holds an SWA row. It is left
        out where the copy does not say so in a way that is known: reports show it, no verdict depends on it."""
