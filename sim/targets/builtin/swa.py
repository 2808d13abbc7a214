"""The hybrid allocator: every token gets a full slot, tokens inside the window an SWA slot, and the
mapping says which belong together. Each method that changes the mapping is a mutation site and says
so to the policy itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from staleloc.models.config import Config

from .pools import KvPool
from .slots import FreePages, SlotAllocator

__all__ = ["AllocatorState", "SwaAllocator"]


@dataclass(frozen=True)
class AllocatorState:
    """What `SwaAllocator.backup` saves: both free lists, the table, and the pages an open group holds back."""

    full: FreePages
    swa: FreePages
    mapping: Tensor
    group: FreePages | None


class SwaAllocator:
    """Hands out full locs and keeps their SWA slots, over one allocator for each pool.

    An allocation that does not fit in both pools returns None and changes nothing. Inside a free
    group, freed locs lose their mapping at once, and their slots become available at the group's end.
    """

    def __init__(self, config: Config, pool: KvPool) -> None:
        self.page_size = config.page_size
        self.pool = pool
        self.policy = pool.policy
        self.full = SlotAllocator(config.full_size, config.page_size, config.need_sort)
        self.swa = SlotAllocator(config.swa_size, config.page_size, config.need_sort)
        # One more element than slots, so that the loc -1 ("none") translates to -1.
        self.full_to_swa_index_mapping = torch.zeros(config.full_size + config.page_size + 1, dtype=torch.int64)
        self.full_to_swa_index_mapping[-1] = -1
        self._group: FreePages | None = None
        pool.register_mapping(self.full_to_swa_index_mapping)

    def alloc(self, count: int) -> list[int] | None:
        """Page size 1: `count` locs."""
        if self.page_size != 1:
            raise ValueError(f"alloc is for page size 1, not {self.page_size}")
        if not self._has_room(count, count):
            return None
        locs = self.full.take(count)
        self._map(locs, self.swa.take(count))
        self.policy.invalidate()
        return locs

    def alloc_extend(
        self, prefix_lens: Sequence[int], seq_lens: Sequence[int], last_locs: Sequence[int]
    ) -> list[int] | None:
        """The new locs of all requests, one request after the other; `last_locs` holds -1 for an empty one.

        A request that ends inside a page must have an SWA slot there (ValueError).
        """
        pages = self.full.pages_needed(prefix_lens, seq_lens)
        if not self._has_room(pages, pages):
            return None
        swa_last_locs = self._swa_last_locs(prefix_lens, last_locs)
        locs = self.full.alloc_extend(prefix_lens, seq_lens, last_locs)
        self._map(locs, self.swa.alloc_extend(prefix_lens, seq_lens, swa_last_locs))
        self.policy.invalidate()
        return locs

    def alloc_decode(self, seq_lens: Sequence[int], last_locs: Sequence[int]) -> list[int] | None:
        """One new loc a request; `seq_lens` count the new token. ValueError as in `alloc_extend`."""
        prefix_lens = [seq - 1 for seq in seq_lens]
        pages = self.full.pages_needed(prefix_lens, seq_lens)
        if not self._has_room(pages, pages):
            return None
        swa_last_locs = self._swa_last_locs(prefix_lens, last_locs)
        locs = self.full.alloc_decode(seq_lens, last_locs)
        self._map(locs, self.swa.alloc_decode(seq_lens, swa_last_locs))
        self.policy.invalidate()
        return locs

    def alloc_extend_swa_tail(self, prefix_len: int, seq_len: int, last_loc: int, tail: int) -> list[int] | None:
        """The new locs of one request, of which the last `tail` have an SWA slot (SGLang PR 25805).

        The tail must start on a page boundary of the request: its SWA pages are new.
        """
        if not self._has_room(self.full.pages_needed([prefix_len], [seq_len]), self.swa.pages_needed([0], [tail])):
            return None
        locs = self.full.alloc_extend([prefix_len], [seq_len], [last_loc])
        swa_locs = self.swa.alloc_extend([0], [tail], [-1])
        head = seq_len - prefix_len - tail
        self._map(locs[head:], swa_locs)
        # A page may come back with a former owner's entries; the head must read as unmapped.
        self._map(locs[:head], [0] * head)
        self.policy.invalidate()
        return locs
