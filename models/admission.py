"""Rounds of admission, replayed in numbers: each request is measured against the room that earlier ones left.

The model does not predict which slots are handed out, nor which tokens the tree evicts for them. It needs only the sum
of free and evictable slots, from which an admission subtracts a known amount.
"""

from __future__ import annotations

from dataclasses import replace

from .budgets import budgets
from .disaggregation import Accounts, Job, Load, Room, Tokens

__all__ = ["NOTHING", "Preallocating", "Resuming"]

NOTHING = Tokens(0, 0)


class Preallocating:
    """A round of preallocation, in the order of the queue. The first request that does not fit ends it.

    Args:
        accounts: how the node counts.
        room: its pools before the round.
        load: its requests before the round.
    """

    def __init__(self, accounts: Accounts, room: Room, load: Load) -> None:
        self._accounts = accounts
        self._room = room
        self._load = load
        self._swa = budgets(accounts, room, load, resuming=False).swa

    def offers(self, job: Job, cached: int, locked: Tokens = NOTHING, loaded: int = 0) -> tuple[Tokens, Tokens]:
        """A request's demand, and the budgets' room for it.

        Args:
            job: the request.
            cached: tokens of its prompt found in the tree.
            locked: tokens that the tree could evict before the match, and cannot evict now.
            loaded: tokens of the cached ones that are loaded back from the host and still need slots.
        """
        left = budgets(self._accounts, _pinned(self._room, locked), self._load, resuming=False)
        if not self._accounts.rules.swa_refreshed and self._accounts.uses_tail:
            left = left._replace(swa=self._swa)
        left = Tokens(left.full - loaded, left.swa - loaded)
        return self._accounts.asked(job, cached, self._load.running), left

    def admit(self, job: Job, cached: int, locked: Tokens = NOTHING, loaded: int = 0) -> None:
        """The request got its slots."""
        room, taken = _pinned(self._room, locked), self._accounts.allocated(job, cached)
        full, swa = taken.full + loaded, taken.swa + loaded
        self._room = replace(room, full_free=room.full_free - full, swa_free=room.swa_free - swa)
        self._load = replace(self._load, active=self._load.active + 1)
        self._swa -= self._accounts.required(job).swa


class Resuming:
    """A round in which retracted requests resume (``resume_retracted_reqs``). The budget is counted once, and each
    request's charge is subtracted from it; or it is counted again after each request.

    Args:
        accounts: how the node counts.
        room: its pools before the round.
        load: its requests before the round.
    """

    def __init__(self, accounts: Accounts, room: Room, load: Load) -> None:
        self._accounts = accounts
        self._room = room
        self._load = load
        self._left = budgets(accounts, room, load, resuming=True)

    def offers(self, job: Job) -> tuple[Tokens, Tokens]:
        """A request's demand, and the budgets' remaining room for it."""
        return self._accounts.required(job), self._left

    def admit(self, job: Job) -> None:
        """The request got its slots."""
        accounts, rules = self._accounts, self._accounts.rules
        required, taken = accounts.required(job), accounts.allocated(job, 0)
        room = self._room
        self._room = replace(room, full_free=room.full_free - taken.full, swa_free=room.swa_free - taken.swa)
        self._load = replace(self._load, active=self._load.active + 1)
        anew = budgets(accounts, self._room, self._load, resuming=True)
        full = anew.full if rules.resumes_full_anew else self._left.full - required.full
        swa = anew.swa if rules.resumes_swa_anew else self._left.swa - required.swa
        self._left = Tokens(full, swa if accounts.uses_tail else full)


def _pinned(room: Room, locked: Tokens) -> Room:
    return replace(
        room,
        full_evictable=room.full_evictable - locked.full,
        swa_evictable=room.swa_evictable - locked.swa,
    )
