"""The hybrid allocator: a full slot for every token, an SWA slot for tokens inside the window, and
the mapping that says which belong together.

Each method that changes the mapping is a mutation site, and tells the policy so itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ....models.config import Config
from .pools import KvPool
from .slots import FreePages, SlotAllocator

__all__ = ["AllocatorState", "SwaAllocator"]


@dataclass(frozen=True)
class AllocatorState:
    """What `SwaAllocator.backup` saves: the free lists of both pools, and the table."""

    full: FreePages
    swa: FreePages
    mapping: Tensor


class SwaAllocator:
    """Hands out full locs and keeps their SWA slots, over one allocator for each pool.

    An allocation that does not fit in both pools returns None and changes nothing. In an open free
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
        self._group: tuple[list[int], list[int]] | None = None
        pool.register_mapping(self.full_to_swa_index_mapping)

    # Allocation

    def alloc(self, count: int) -> list[int] | None:
        """Page size 1: `count` locs."""
        if self.page_size != 1:
            raise ValueError(f"alloc is for page size 1, not {self.page_size}")
        if not self._has_room(count, count):
            return None
        locs = self._pair(self.full.take(count), self.swa.take(count))
        self.policy.invalidate()
        return locs

    def alloc_extend(
        self, prefix_lens: Sequence[int], seq_lens: Sequence[int], last_locs: Sequence[int]
    ) -> list[int] | None:
        """The new locs of all requests, one request after the other; `last_locs` holds -1 for an empty one.

        A request that ends inside a page must have SWA slots there (ValueError): the next ones follow them.
        """
        pages = self.full.pages_needed(prefix_lens, seq_lens)
        if not self._has_room(pages, pages):
            return None
        swa_last_locs = self._swa_last_locs(prefix_lens, last_locs)
        locs = self._pair(
            self.full.alloc_extend(prefix_lens, seq_lens, last_locs),
            self.swa.alloc_extend(prefix_lens, seq_lens, swa_last_locs),
        )
        self.policy.invalidate()
        return locs

    def alloc_decode(self, seq_lens: Sequence[int], last_locs: Sequence[int]) -> list[int] | None:
        """One new loc a request; `seq_lens` count the new token. ValueError as in `alloc_extend`."""
        prefix_lens = [seq - 1 for seq in seq_lens]
        pages = self.full.pages_needed(prefix_lens, seq_lens)
        if not self._has_room(pages, pages):
            return None
        swa_last_locs = self._swa_last_locs(prefix_lens, last_locs)
        locs = self._pair(
            self.full.alloc_decode(seq_lens, last_locs),
            self.swa.alloc_decode(seq_lens, swa_last_locs),
        )
        self.policy.invalidate()
        return locs

    def alloc_extend_swa_tail(self, prefix_len: int, seq_len: int, last_loc: int, tail: int) -> list[int] | None:
        """The new locs of one request, of which the last `tail` have SWA slots (SGLang PR 25805).

        The tail starts on a page boundary of the request, for its SWA pages are new.
        """
        if not self._has_room(self.full.pages_needed([prefix_len], [seq_len]), self.swa.pages_needed([0], [tail])):
            return None
        swa_locs = self.swa.alloc_extend([0], [tail], [-1])
        # The head is written too: a recycled page must not bring a former owner's entries with it.
        head = [0] * (seq_len - prefix_len - tail)
        locs = self._pair(
            self.full.alloc_extend([prefix_len], [seq_len], [last_loc]),
            None if swa_locs is None else head + swa_locs,
        )
        self.policy.invalidate()
        return locs

    # Giving up

    def free(self, locs: Sequence[int]) -> None:
        """Free locs in both pools, whole pages of a request; those without an SWA slot in the full pool only."""
        swa_pages = self._unmap(locs)
        self.policy.invalidate()
        self._release(self.full.pages_of(locs), swa_pages)

    def free_swa(self, locs: Sequence[int]) -> None:
        """Free the SWA pages of these locs, and unmap everything that lies in them (SGLang PR 27779).

        Locs without an SWA slot are passed over.
        """
        swa_pages = self._unmap(locs)
        self.policy.invalidate()
        self._release([], swa_pages)

    def free_group_begin(self) -> None:
        """From now on freed slots are held back. A group that is open already goes on."""
        if self._group is None:
            self._group = ([], [])

    def free_group_end(self) -> None:
        """Release what the group held back; without an open group, nothing (SGLang PR 36739)."""
        if self._group is None:
            return
        full_pages, swa_pages = self._group
        self._group = None
        self._release(full_pages, swa_pages)

    def clear(self) -> None:
        """Free everything and unmap every loc."""
        self.full.clear()
        self.swa.clear()
        self.full_to_swa_index_mapping[:-1].zero_()
        self._group = None
        self.policy.invalidate()

    # The mapping itself

    def take_swa(self, locs: Sequence[int]) -> list[int]:
        """Fresh SWA slots for these locs, page by page and at the same place in the page; maps nothing.

        Raises:
            MemoryError: the SWA pool has too few free pages.
        """
        full_pages = self.full.pages_of(locs)
        swa_pages = self.swa.take(len(full_pages))
        if swa_pages is None:
            raise MemoryError(f"the SWA pool has fewer than {len(full_pages)} free pages")
        page_of = dict(zip(full_pages, swa_pages, strict=True))
        size = self.page_size
        return [page_of[loc // size] * size + loc % size for loc in locs]

    def release_swa(self, swa_locs: Sequence[int]) -> None:
        """Free the pages of SWA slots that no entry names any more."""
        self._release([], self.swa.pages_of(swa_locs))

    def set_mapping(self, locs: Sequence[int], swa_locs: Sequence[int]) -> None:
        """Map `locs` to `swa_locs` in place (``set_full_to_swa_mapping``; HiCache load-back)."""
        self._map(locs, swa_locs)
        self.policy.invalidate()

    def register_mapping(self, mapping: Tensor) -> None:
        """Use this table from now on, here and in the pool (SGLang PR 25889). Shape and dtype stay as they are."""
        self.full_to_swa_index_mapping = mapping
        self.pool.register_mapping(mapping)
        self.policy.invalidate()

    # Backup and restore

    def backup(self) -> AllocatorState:
        """A copy of the free lists and of the table, for a draft that may be rolled back."""
        return AllocatorState(self.full.backup(), self.swa.backup(), self.full_to_swa_index_mapping.clone())

    def restore(self, state: AllocatorState) -> None:
        """Go back to `state`: locs handed out since are free again, and unmapped."""
        self.full.restore(state.full)
        self.swa.restore(state.swa)
        self.full_to_swa_index_mapping.copy_(state.mapping)
        self.policy.invalidate()

    # Inside

    def _has_room(self, full_pages: int, swa_pages: int) -> bool:
        return full_pages <= self.full.available_pages() and swa_pages <= self.swa.available_pages()

    def _swa_last_locs(self, prefix_lens: Sequence[int], last_locs: Sequence[int]) -> list[int]:
        # Read from the table itself: the policy's cache is for the forward.
        swa_last_locs: list[int] = self.full_to_swa_index_mapping[_index(last_locs)].tolist()
        for prefix, swa_last in zip(prefix_lens, swa_last_locs, strict=True):
            if prefix % self.page_size and swa_last == 0:
                raise ValueError(
                    f"a request of {prefix} tokens has no SWA slots in its last page; it cannot grow there"
                )
        return swa_last_locs

    def _pair(self, locs: list[int] | None, swa_locs: list[int] | None) -> list[int]:
        """Map what both pools handed out, once room in both was found."""
        assert locs is not None
        assert swa_locs is not None
        self._map(locs, swa_locs)
        return locs

    def _map(self, locs: Sequence[int], swa_locs: Sequence[int]) -> None:
        self.full_to_swa_index_mapping[_index(locs)] = _index(swa_locs)

    def _unmap(self, locs: Sequence[int]) -> list[int]:
        """Clear the entries of the pages these locs lie in; the SWA pages that they named, each once."""
        full_pages = _index(self.full.pages_of(locs))
        entries = self.full_to_swa_index_mapping[:-1].view(-1, self.page_size)
        swa_locs: list[int] = entries[full_pages].flatten().tolist()
        entries.index_fill_(0, full_pages, 0)
        return self.swa.pages_of(swa_loc for swa_loc in swa_locs if swa_loc > 0)

    def _release(self, full_pages: Iterable[int], swa_pages: Iterable[int]) -> None:
        if self._group is not None:
            self._group[0].extend(full_pages)
            self._group[1].extend(swa_pages)
            return
        self.full.release(full_pages)
        self.swa.release(swa_pages)


def _index(values: Sequence[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)
