"""The budgets of a decode node: two sums of named terms.

The sums are those of SGLang's decode preallocation queue (``_swa_aware_allocatable_token_budgets``).
"""

from __future__ import annotations

from collections.abc import Sequence

from .disaggregation import CLIP_NEW_TOKENS, Accounts, Job, Load, Room, Tokens

__all__ = ["Terms", "budget_terms", "budgets"]

Terms = dict[str, int]
"""Name of a term -> tokens, negative if they are kept back."""


def budgets(accounts: Accounts, room: Room, load: Load, resuming: bool) -> Tokens:
    """Full and SWA tokens that may be handed out now; a pool without tails has one budget, given twice."""
    full, swa = budget_terms(accounts, room, load, resuming)
    return Tokens(sum(full.values()), sum(swa.values()))


def budget_terms(accounts: Accounts, room: Room, load: Load, resuming: bool) -> tuple[Terms, Terms]:
    """The terms of the two budgets.

    When retracted requests are resumed, neither they nor the future needs of running requests count.
    A pool without tails has one budget, that of the smaller pool.
    """
    evictable = room.swa_evictable if accounts.rules.swa_evictable or not accounts.uses_tail else 0
    full = {"free": room.full_free, "evictable": room.full_evictable}
    swa = {"free": room.swa_free, "evictable": evictable}
    if accounts.uses_tail:
        return full | _kept_full(accounts, load, resuming), swa | _kept_swa(accounts, room, load, resuming)
    if accounts.rules.adds_evictable:
        smaller = {"free": min(room.full_free, room.swa_free), "evictable": room.full_evictable}
    else:
        smaller = min(full, swa, key=lambda pool: sum(pool.values()))
    one = smaller | _kept_full(accounts, load, resuming)
    return one, one


def _kept_full(accounts: Accounts, load: Load, resuming: bool) -> Terms:
    reserved, need = accounts.reserved, 0
    if load.running and not resuming:
        need = max(map(_ahead, load.running)) - accounts.retractable(load.running).full
    return {
        "kept for active requests": -max(reserved * load.active, need),
        "kept for a prebuilt batch": -reserved * load.prebuilt,
        "kept for retracted requests": 0 if resuming else -sum(accounts.required(job).full for job in load.retracted),
    }


def _kept_swa(accounts: Accounts, room: Room, load: Load, resuming: bool) -> Terms:
    available = room.swa_free + (room.swa_evictable if accounts.rules.swa_evictable else 0)
    used, need = room.swa_size - available, 0
    if load.running and not resuming:
        need = _longest_swa(accounts, load.running) - accounts.retractable(load.running).swa
    return {
        "kept for active requests": -max(_growth(accounts, load.active, used), need),
        "kept for a prebuilt batch": -_growth(accounts, load.prebuilt, used),
        "kept for retracted requests": 0 if resuming else -sum(accounts.required(job).swa for job in load.retracted),
    }


def _growth(accounts: Accounts, requests: int, used: int) -> int:
    """SWA tokens reserved for the decode of so many requests: at most their windows, because behind a full window
    each new token frees an old one."""
    return min(accounts.reserved * requests, max(0, requests * (accounts.window or 0) - used))


def _ahead(job: Job) -> int:
    return job.prompt + min(job.most, CLIP_NEW_TOKENS)


def _longest_swa(accounts: Accounts, running: Sequence[Job]) -> int:
    return max(accounts.tail(job.prompt) + min(job.most, CLIP_NEW_TOKENS) for job in running)
