"""The counting rules of a decode node: which tokens get SWA slots up front, what a request needs, what is available.

The numbers are those of SGLang's decode preallocation queue (``DecodePreallocQueue``, SWA tail from PR 25805's
release on). The two pools are counted separately: the full pool holds every token of a request, the SWA pool its tail.
All numbers are tokens unless a name says pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

__all__ = [
    "CLIP_NEW_TOKENS", "Accounts", "Job", "Load", "Room", "Rules", "Tokens",
    "committed", "qualifies", "tail_length",
]  # fmt: skip

CLIP_NEW_TOKENS = 4096
"""New tokens of one request that admission looks ahead at most (``SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION``)."""


class Tokens(NamedTuple):
    """Tokens of the full and of the SWA pool."""

    full: int
    swa: int


class Rules(Protocol):
    """How an engine counts; see `staleloc.sim.targets.disagg.Rules`."""

    @property
    def whole_pages(self) -> bool: ...
    @property
    def reserves_swa(self) -> bool: ...
    @property
    def swa_evictable(self) -> bool: ...
    @property
    def swa_refreshed(self) -> bool: ...
    @property
    def tail_after_prefix(self) -> bool: ...
    @property
    def whole_charged(self) -> bool: ...
    @property
    def wide_tail(self) -> bool: ...
    @property
    def sender_skips_cached(self) -> bool: ...
    @property
    def window_before(self) -> bool: ...
    @property
    def asks_whole(self) -> bool: ...
    @property
    def records_tail(self) -> bool: ...
    @property
    def adds_evictable(self) -> bool: ...
    @property
    def resumes_swa_anew(self) -> bool: ...
    @property
    def resumes_full_anew(self) -> bool: ...
    @property
    def joins_at_once(self) -> bool: ...
    @property
    def leaves_a_token(self) -> bool: ...


class Job(Protocol):
    """A request as admission sees it."""

    @property
    def prompt(self) -> int:
        """Tokens of its prompt."""

    @property
    def outputs(self) -> int:
        """Output tokens so far."""

    @property
    def most(self) -> int:
        """Output tokens at most."""


@dataclass(frozen=True)
class Load:
    """The requests that count, by stage. Queued ones do not count.

    Attributes:
        running: in the running batch.
        active: number of those running, being transferred, or waiting to be started.
        prebuilt: started, and in no queue yet.
        retracted: on the CPU, first to resume first.
    """

    running: Sequence[Job]
    active: int
    prebuilt: int
    retracted: Sequence[Job]


@dataclass(frozen=True)
class Room:
    """The room in the pools: free slots, slots that the prefix tree can evict, and the size of the SWA pool."""

    full_free: int
    full_evictable: int
    swa_free: int
    swa_evictable: int
    swa_size: int


def committed(prompt: int, outputs: int) -> int:
    """Tokens of a request that have KV: the last output token has none yet (``_pre_alloc_fill_len``)."""
    return prompt + max(outputs - 1, 0)


def qualifies(page_size: int, swa_pool: bool, offers_tail: bool) -> bool:
    """Whether a pool takes tail preallocation: it has an SWA pool, pages of more than one token, and an allocator
    with ``alloc_extend_swa_tail`` (``_uses_swa_tail_prealloc``). None of this changes while a node runs."""
    return swa_pool and page_size > 1 and offers_tail


def tail_length(length: int, window: int | None, page_size: int) -> int:
    """Tokens at the end of `length` that get SWA slots: those from the page in which the window starts
    (``_swa_tail_len``). All of them without a window (None or 0)."""
    if length <= 0:
        return 0
    if not window:
        return length
    start = max(0, length - window)
    return length - start // page_size * page_size


@dataclass(frozen=True)
class Accounts:
    """The lengths and budgets of one decode node.

    Attributes:
        page_size: tokens a page.
        window: sliding window in tokens, None or 0 for none.
        reserved: decode tokens reserved for each active request (``num_reserved_decode_tokens``).
        uses_tail: see `qualifies`.
        tree: the node keeps a prefix tree.
        rules: how this engine counts.
    """

    page_size: int
    window: int | None
    reserved: int
    uses_tail: bool
    tree: bool
    rules: Rules

    # Lengths

    def tail(self, length: int) -> int:
        """SWA tokens of a request of so many tokens without a cached prefix."""
        if not self.uses_tail:
            return max(length, 0)
        if self.window and self.tree and self.rules.wide_tail:
            return tail_length(length, 1 + max(self.window, self.page_size), self.page_size)
        return tail_length(length, self.window, self.page_size)

    def lengths(self, job: Job) -> Tokens:
        """The lengths to preallocate: prompt and committed output, and their tail (``_prealloc_kv_lens``)."""
        length = committed(job.prompt, job.outputs)
        return Tokens(length, self.tail(length))

    def required(self, job: Job) -> Tokens:
        """The charge for a request: its lengths and the reserved tokens (``_prealloc_required_tokens``)."""
        full, swa = self.lengths(job)
        return Tokens(self.charged(full) + self.reserved, self.charged(swa) + self.swa_reserved)

    def retractable(self, jobs: Sequence[Job]) -> Tokens:
        """The tokens that retracting these running requests would free; in the SWA pool the prompt's tail and the
        output (``_swa_retractable_len``)."""
        return Tokens(
            sum(job.prompt + job.outputs for job in jobs),
            sum(self.tail(job.prompt) + job.outputs for job in jobs),
        )

    def charged(self, tokens: int) -> int:
        """So many tokens as the engine counts them, in whole pages if it does so."""
        return -(-tokens // self.page_size) * self.page_size if self.rules.whole_pages else tokens

    @property
    def swa_reserved(self) -> int:
        """Decode tokens a request is charged in the SWA pool."""
        return self.reserved if self.rules.reserves_swa else 0

    def sent_from(self, prompt: int, cached: int, told: int = 0) -> int:
        """The first token whose SWA row the sender writes: the window's, in whole pages, or an earlier one if it is
        `told` of more pages than that."""
        start = max(cached if self.rules.sender_skips_cached else 0, prompt - (self.window or prompt), 0)
        more = max(cached, self._pages(prompt) - told * self.page_size)
        return min(start // self.page_size * self.page_size, more)

    # Admission

    def asked(self, job: Job, cached: int, running: Sequence[Job]) -> Tokens:
        """The demand on the budgets to admit a request with `cached` tokens in the tree (``pop_preallocated``): the
        larger one of its charge, and its largest possible length minus the tokens that could be retracted."""
        length, tail = self.lengths(job)
        new = (self._pages(length) if self.tree or self.rules.asks_whole else length) - cached
        swa = length - cached if self.whole(cached) and self.rules.whole_charged else tail
        most, back = min(job.most, CLIP_NEW_TOKENS), self.retractable(running)
        return Tokens(
            max(new + self.reserved, job.prompt - cached + most - back.full),
            max(self.charged(swa) + self.swa_reserved, swa + most - back.swa),
        )

    def fits(self, asked: Tokens, budgets: Tokens) -> bool:
        """Whether the budgets allow it."""
        return asked.full <= budgets.full and (not self.uses_tail or asked.swa <= budgets.swa)

    def whole(self, cached: int) -> bool:
        """Whether every new token of a request gets an SWA slot, not only its tail."""
        return not self.uses_tail or (cached > 0 and not self.rules.tail_after_prefix)

    def allocated(self, job: Job, cached: int) -> Tokens:
        """The slots, in whole pages, that it takes to preallocate a request."""
        length, tail = self.lengths(job)
        new = self._pages(length) - cached
        return Tokens(new, new if self.whole(cached) else self._pages(tail))

    def _pages(self, tokens: int) -> int:
        return -(-tokens // self.page_size) * self.page_size

    def rejects(self, job: Job, full_size: int, swa_size: int) -> bool:
        """Whether a request is rejected: even an empty node could not hold it
        (``_check_if_req_exceed_kv_capacity``)."""
        if not self.uses_tail:
            return job.prompt > min(full_size, swa_size)
        return job.prompt > full_size or self.required(job).swa > swa_size
