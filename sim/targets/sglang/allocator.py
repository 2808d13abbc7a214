"""The allocator half of the adapter: every allocation event against SGLang's own ``SWATokenToKVPoolAllocator``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..arena import Arena
from ..base import FreeSlots

__all__ = ["AllocatorDriver"]


class Frees:
    """Frees locs of one allocator through the calls that the release's own scheduler uses.

    Up to 0.5.18 there are ``free`` and ``free_swa``. From 0.5.19 tombstoned locs have a call of their own,
    ``free_full``, and what is freed inside a group is copied, because callers lend slices of request rows that are soon
    written again. From 0.5.20 whole pages of a row go back as segments, from one loc a page.

    Outside a group whole pages go back as segments, where a release has them; inside one, and for a part of
    a page, by the plain calls, which trees use: so both are driven.

    Args:
        allocator: the release's ``SWATokenToKVPoolAllocator``.
        arena: where loc tensors live.
    """

    def __init__(self, allocator: Any, arena: Arena) -> None:
        self._allocator = allocator
        self._fresh = arena.fresh
        self._page_size: int = allocator.page_size
        self._free_full = getattr(allocator, "free_full", None)
        self._copies = hasattr(allocator, "_copy_for_free_group")
        self._segments = hasattr(type(allocator), "free_swa_segment")
        self._group_open = False

    def group(self, begin: bool) -> None:
        """Open or close a free group."""
        self._group_open = begin
        if begin:
            self._allocator.free_group_begin()
        else:
            self._allocator.free_group_end()

    def free(self, mapped: list[int], unmapped: list[int]) -> None:
        """Free whole pages of a request in both pools; the SWA slots of `unmapped` are gone already."""
        if self._free_full is None:
            self._allocator.free(self._fresh(unmapped + mapped))
            return
        self._give(unmapped, self._free_full, "free_full_segment")
        self._give(mapped, self._allocator.free, "free_segment")

    def free_swa(self, locs: list[int]) -> None:
        """Free the SWA slots of these locs."""
        self._give(locs, self._allocator.free_swa, "free_swa_segment")

    def _give(self, locs: list[int], plain: Any, segment: str) -> None:
        if not locs:
            return
        lent = self._fresh(locs)
        if self._segments and not self._group_open and locs[0] % self._page_size == 0:
            getattr(self._allocator, segment)(lent, start_pos=0)
        else:
            plain(lent)
        if self._copies:
            lent.zero_()


def _free_list(allocator: Any) -> list[int]:
    """The free list of one sub-allocator: slots at page size 1, pages otherwise."""
    everything = getattr(allocator, "get_all_free_pages", None)
    if everything is not None:
        pages: list[int] = everything().tolist()
        return pages
    return [*allocator.free_pages.tolist(), *allocator.release_pages.tolist()]


class AllocatorDriver:
    """Integers in, the release's allocator calls, integers out. The methods are those of `Target`.

    Attributes:
        allocator: the release's ``SWATokenToKVPoolAllocator``.
        kv: the release's pool behind it.
        tree: the release's prefix tree at the engine level; else None.
    """

    allocator: Any
    kv: Any
    tree: Any = None

    def attach(self, allocator: Any, kv: Any, arena: Arena) -> None:
        """Drive this allocator and pool from now on, with tensors of this arena."""
        self.allocator = allocator
        self.kv = kv
        self._backup: Any = None
        self._tensor = arena.fresh
        self._frees = Frees(allocator, arena)

    def alloc(self, count: int) -> list[int] | None:
        return self._locs(self.allocator.alloc(count))

    def alloc_extend(self, prefix_lens: list[int], seq_lens: list[int], last_locs: list[int]) -> list[int] | None:
        prefix, seq = self._tensor(prefix_lens), self._tensor(seq_lens)
        count = sum(seq_lens) - sum(prefix_lens)
        return self._locs(self.allocator.alloc_extend(prefix, prefix, seq, seq, self._tensor(last_locs), count))

    def alloc_decode(self, seq_lens: list[int], last_locs: list[int]) -> list[int] | None:
        seq = self._tensor(seq_lens)
        return self._locs(self.allocator.alloc_decode(seq, seq, self._tensor(last_locs)))

    def alloc_extend_swa_tail(self, prefix_len: int, seq_len: int, last_loc: int, tail: int) -> list[int] | None:
        prefix, seq = self._tensor([prefix_len]), self._tensor([seq_len])
        last, count = self._tensor([last_loc]), seq_len - prefix_len
        return self._locs(self.allocator.alloc_extend_swa_tail(prefix, prefix, seq, seq, last, count, tail))

    @staticmethod
    def _locs(out: torch.Tensor | None) -> list[int] | None:
        if out is None:
            return None
        if out.is_floating_point():
            raise TypeError(f"locs came back as {out.dtype}")
        locs: list[int] = out.tolist()
        return locs

    def free(self, mapped: list[int], unmapped: list[int]) -> None:
        self._frees.free(mapped, unmapped)

    def free_swa(self, locs: list[int]) -> None:
        self._frees.free_swa(locs)

    def free_group_begin(self) -> None:
        self._frees.group(True)

    def free_group_end(self) -> None:
        self._frees.group(False)

    def _take_swa(self, count: int) -> torch.Tensor:
        slots = self.allocator.swa_attn_allocator.alloc(count)
        if slots is None:
            raise MemoryError(f"the SWA allocator has no {count} free slots")
        fresh: torch.Tensor = slots
        return fresh

    def set_mapping(self, locs: list[int]) -> list[int]:
        """See `Target.set_mapping`. As SGLang's HiCache load-back: take SWA slots, then map them."""
        slots = self._take_swa(len(locs))
        self.allocator.set_full_to_swa_mapping(self._tensor(locs), slots)
        fresh: list[int] = slots.tolist()
        return fresh

    def register_mapping(self, locs: list[int]) -> list[int]:
        """See `Target.register_mapping` (the trigger of SGLang PR 25889)."""
        mapping = self.allocator.full_to_swa_index_mapping.clone()
        slots = old = None
        if locs:
            where = self._tensor(locs)
            slots, old = self._take_swa(len(locs)), mapping[where]
            mapping[where] = slots
        self.allocator.full_to_swa_index_mapping = mapping
        self.kv.register_mapping(mapping)
        if slots is None or old is None:
            return []
        self.allocator.swa_attn_allocator.free(old[old > 0])
        fresh: list[int] = slots.tolist()
        return fresh

    def backup(self) -> None:
        self._backup = self.allocator.backup_state()

    def restore(self) -> None:
        self.allocator.restore_state(self._backup)

    def clear(self) -> None:
        self.allocator.clear()

    def declared(self, kind: str, call: Callable[[Any, Any, Any], None]) -> None:
        call(self.allocator, self.kv, self.tree)

    def raw_mapping(self) -> list[int]:
        """See `Target.raw_mapping`; the tensor translations read."""
        mapping: list[int] = self.kv.full_to_swa_index_mapping.tolist()
        del mapping[-1]
        return mapping

    def raw_free(self) -> FreeSlots:
        allocator = self.allocator
        return FreeSlots(
            full=_free_list(allocator.full_attn_allocator),
            swa=_free_list(allocator.swa_attn_allocator),
            room=(allocator.full_available_size(), allocator.swa_available_size()),
        )
