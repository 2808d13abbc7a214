"""What a decode node may hand out: lengths, what each request is charged, and a budget for each pool.

The counts follow SGLang's ``DecodePreallocQueue``: whole pages (PR 33794), and slots of the prefix tree count as far
as nothing locks them, in both pools (PRs 29662, 38634).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from ....models.config import Config
from .decode_jobs import DecodeJobs, Job
from .swa import SwaAllocator
from .tree import PrefixTree

__all__ = ["DecodeAccounts"]

_LOOK_AHEAD = 4096
"""Output tokens of one request that count at most (``SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION``)."""


class DecodeAccounts:
    """Counts in tokens. Pairs are ``(full, SWA)``.

    A pool that takes no tail preallocation has one budget, of whichever pool has less.
    """

    def __init__(self, config: Config, allocator: SwaAllocator, tree: PrefixTree, jobs: DecodeJobs) -> None:
        self._config = config
        self._allocator = allocator
        self._tree = tree
        self._jobs = jobs

    # Lengths

    @cached_property
    def uses_tail(self) -> bool:
        """Whether requests get SWA slots for their tail only. Asked at every turn; a node's pools never change."""
        return self._config.page_size > 1 and hasattr(self._allocator, "alloc_extend_swa_tail")

    def tail(self, length: int) -> int:
        """Tokens at the end of so many that get SWA slots: the window, from the start of its first page."""
        if not self.uses_tail or not self._config.window:
            return max(length, 0)
        return length - self.aligned(max(0, length - self._config.window))

    def lengths(self, job: Job) -> tuple[int, int]:
        """Tokens to preallocate."""
        return job.committed, self.tail(job.committed)

    def required(self, job: Job, cached: int = 0) -> tuple[int, int]:
        """What a request is charged: its slots in whole pages, and tokens for the decode.

        Behind a cached prefix each token gets an SWA slot at first. Without a tree a request's own window is all that
        it keeps in the SWA pool, and what it grows by it gives up.
        """
        reserved = self._config.reserved_decode
        full, swa = self.lengths(job)
        swa = full - cached if cached else swa
        return (
            self.whole_pages(full) - cached + reserved,
            self.whole_pages(swa) + (reserved if self._config.decode_tree else 0),
        )

    def retractable(self, jobs: Iterable[Job]) -> tuple[int, int]:
        """What retracting these running requests would give back."""
        jobs = list(jobs)
        return (
            sum(job.prompt + job.outputs for job in jobs),
            sum(self.tail(job.prompt) + job.outputs for job in jobs),
        )

    def aligned(self, length: int) -> int:
        """`length` down to whole pages."""
        return length // self._config.page_size * self._config.page_size

    def whole_pages(self, length: int) -> int:
        """`length` up to whole pages."""
        return -self.aligned(-length)

    # Budgets

    def active(self) -> int:
        """Requests that tokens are reserved for."""
        return len(self._jobs.running) + len(self._jobs.transferring) + len(self._jobs.waiting)

    def budgets(self, resuming: bool) -> tuple[int, int]:
        """What may be handed out now, to retracted requests that resume or to new ones."""
        full, swa = self._available()
        if not self.uses_tail:
            full = swa = min(full, swa)
        need_full, need_swa = (0, 0) if resuming else self._needs()
        reserved = self._config.reserved_decode
        prebuilt = len(self._jobs.prebuilt)
        full_budget = full - max(reserved * self.active(), need_full) - reserved * prebuilt
        used = self._config.swa_size - swa
        swa_budget = swa - max(self._growth(self.active(), used), need_swa) - self._growth(prebuilt, used)
        if not resuming:
            full_budget -= sum(self.required(job)[0] for job in self._jobs.retracted)
            swa_budget -= sum(self.required(job)[1] for job in self._jobs.retracted)
        return (full_budget, swa_budget) if self.uses_tail else (full_budget, full_budget)

    def fits(self, job: Job, cached: int, loaded: int = 0) -> bool:
        """Whether a new request with so much of its prompt in the tree can be admitted now. Its prefix is locked; slots
        for the tokens of it that are loaded back are still to be taken."""
        full, swa = self.required(job, cached)
        length, tail = self.lengths(job)
        back_full, back_swa = self.retractable(self._jobs.running)
        ahead = min(job.most, _LOOK_AHEAD)
        swa_length = length - cached if cached else tail
        full_budget, swa_budget = (budget - loaded for budget in self.budgets(resuming=False))
        if max(full, job.prompt - cached + ahead - back_full) > full_budget:
            return False
        return not self.uses_tail or max(swa, swa_length + ahead - back_swa) <= swa_budget

    def rejects(self, job: Job) -> bool:
        """Whether not even an empty node could hold a new request."""
        config = self._config
        if not self.uses_tail:
            return job.prompt > min(config.full_size, config.swa_size)
        return job.prompt > config.full_size or self.required(job)[1] > config.swa_size

    # Inside

    def _available(self) -> tuple[int, int]:
        """Free slots, and those the tree can give up."""
        ledger, allocator = self._tree.ledger, self._allocator
        full = allocator.full.available_size() + ledger.full_evictable
        return full, allocator.swa.available_size() + ledger.swa_evictable

    def _needs(self) -> tuple[int, int]:
        """What the longest running request may still want once all others are retracted."""
        running = self._jobs.running
        if not running:
            return 0, 0
        back_full, back_swa = self.retractable(running)
        return (
            max(job.prompt + min(job.most, _LOOK_AHEAD) for job in running) - back_full,
            max(self.tail(job.prompt) + min(job.most, _LOOK_AHEAD) for job in running) - back_swa,
        )

    def _growth(self, requests: int, used: int) -> int:
        """SWA tokens reserved for the decode of so many requests: not more than fill their windows."""
        return min(self._config.reserved_decode * requests, max(0, requests * self._config.window - used))
