"""The builtin target: integers in, the calls of allocator and pool, integers out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ....models.config import Config
from ..arena import Arena
from ..base import CALLS, Batch, FreeSlots, Profile, Rows, TargetError
from ..tags import DTYPES, decode, encode
from .cpu_copy import CpuCopy
from .pools import DeepSeekV4Pool, HybridPool, KvPool
from .swa import AllocatorState, SwaAllocator

__all__ = ["BuiltinTarget"]

_PAGE_SIZES = (1, 2, 4, 16, 64)

_DSV4_MISSING = {
    "cpu_copy": "the DeepSeek-V4-like pool is not retracted to the CPU",
    "load_cpu_copy": "the DeepSeek-V4-like pool is not retracted to the CPU",
    "move": "the DeepSeek-V4-like pool moves no accepted tokens",
}


class BuiltinTarget:
    """The embedded implementation, for any policy of `staleloc.sim.targets.builtin.policies`. See `Target`."""

    name = "builtin"
    adapter: tuple[str, ...] = ()
    profiles: tuple[Profile, ...] = (
        Profile(
            pool="hybrid",
            policies=("uncached", "side_channel", "memo"),
            page_sizes=_PAGE_SIZES,
            dtypes=tuple(DTYPES),
            events=frozenset(CALLS),
            precomputed=True,
        ),
        Profile(
            pool="dsv4",
            policies=("uncached", "first_layer"),
            page_sizes=_PAGE_SIZES,
            dtypes=tuple(DTYPES),
            events=frozenset(CALLS) - frozenset(_DSV4_MISSING),
            missing=_DSV4_MISSING,
        ),
    )

    _pool: KvPool
    _allocator: SwaAllocator
    _arena: Arena
    _dtype: torch.dtype
    _locs: Tensor
    _copies: dict[int, CpuCopy]
    _saved: AllocatorState | None

    def build(self, config: Config) -> None:
        """Make a new, empty cache. TargetError if no profile has this pool with this policy."""
        if not any(config.pool == profile.pool and config.policy in profile.policies for profile in self.profiles):
            raise TargetError(f"builtin has no {config.pool} pool with policy {config.policy}")
        self._pool = HybridPool(config) if config.pool == "hybrid" else DeepSeekV4Pool(config)
        self._allocator = SwaAllocator(config, self._pool)
        self._arena = Arena()
        self._dtype = DTYPES[config.dtype]
        self._copies = {}
        self._saved = None

    def alloc(self, count: int) -> list[int] | None:
        """See `Target.alloc`."""
        return self._allocator.alloc(count)

    def alloc_extend(self, prefix_lens: list[int], seq_lens: list[int], last_locs: list[int]) -> list[int] | None:
        """See `Target.alloc_extend`."""
        return self._allocator.alloc_extend(prefix_lens, seq_lens, last_locs)

    def alloc_decode(self, seq_lens: list[int], last_locs: list[int]) -> list[int] | None:
        """See `Target.alloc_decode`."""
        return self._allocator.alloc_decode(seq_lens, last_locs)

    def alloc_extend_swa_tail(self, prefix_len: int, seq_len: int, last_loc: int, tail: int) -> list[int] | None:
        """See `Target.alloc_extend_swa_tail`."""
        return self._allocator.alloc_extend_swa_tail(prefix_len, seq_len, last_loc, tail)

    def free(self, mapped: list[int], unmapped: list[int]) -> None:
        """See `Target.free`."""
        self._allocator.free(unmapped + mapped)

    def free_swa(self, locs: list[int]) -> None:
        """See `Target.free_swa`."""
        self._allocator.free_swa(locs)

    def free_group_begin(self) -> None:
        """See `Target.free_group_begin`."""
        self._allocator.free_group_begin()

    def free_group_end(self) -> None:
        """See `Target.free_group_end`."""
        self._allocator.free_group_end()

    def set_mapping(self, locs: list[int]) -> list[int]:
        """See `Target.set_mapping`."""
        fresh = self._allocator.take_swa(locs)
        self._allocator.set_mapping(locs, fresh)
        return fresh

    def register_mapping(self, locs: list[int]) -> list[int]:
        """See `Target.register_mapping`."""
        mapping = self._allocator.full_to_swa_index_mapping.clone()
        index = torch.tensor(locs, dtype=torch.int64)
        old: list[int] = mapping[index].tolist()
        fresh = self._allocator.take_swa(locs)
        mapping[index] = torch.tensor(fresh, dtype=torch.int64)
        self._allocator.register_mapping(mapping)
        self._allocator.release_swa([swa_loc for swa_loc in old if swa_loc > 0])
        return fresh

    def backup(self) -> None:
        """See `Target.backup`."""
        self._saved = self._allocator.backup()

    def restore(self) -> None:
        """See `Target.restore`."""
        if self._saved is None:
            raise ValueError("there is no backup to go back to")
        self._allocator.restore(self._saved)

    def clear(self) -> None:
        """See `Target.clear`."""
        self._allocator.clear()

    def begin_forward(self, batch: Batch) -> None:
        """See `Target.begin_forward`."""
        self._locs = self._arena.place(batch.locs, batch.storage, batch.offset)
        self._pool.policy.begin_forward()
        if batch.precomputed:
            self._pool.policy.set_swa_loc(self._pool.gather(self._locs))

    def write_kv(self, layer: int, tags: list[int]) -> None:
        """See `Target.write_kv`."""
        self._pool.set_kv_buffer(layer, self._locs, *encode(tags, self._dtype)[: self._pool.parts])

    def read_kv(self, layer: int, locs: list[int]) -> Rows:
        """See `Target.read_kv`."""
        return decode(*self._pool.get_kv_buffer(layer, torch.tensor(locs, dtype=torch.int64)))

    def translate_batch(self, start: int, stop: int) -> list[int]:
        """See `Target.translate_batch`."""
        swa_locs: list[int] = self._pool.policy.translate_part(self._locs, start, stop).tolist()
        return swa_locs

    def translate(self, locs: list[int], source: str) -> list[int]:
        """See `Target.translate`."""
        swa_locs: list[int] = self._pool.policy.lookup(self._arena.ask(locs, source)).flatten().tolist()
        return swa_locs

    def end_forward(self) -> None:
        """See `Target.end_forward`. Nothing ends a policy's answer but the next start or a mutation."""

    def cpu_copy(self, copy: int, locs: list[int]) -> None:
        """See `Target.cpu_copy`."""
        self._copies[copy] = self._hybrid().get_cpu_copy(torch.tensor(locs, dtype=torch.int64))

    def load_cpu_copy(self, copy: int, locs: list[int]) -> None:
        """See `Target.load_cpu_copy`."""
        self._hybrid().load_cpu_copy(self._copies[copy], torch.tensor(locs, dtype=torch.int64))

    def move(self, targets: list[int], sources: list[int]) -> None:
        """See `Target.move`."""
        index = (torch.tensor(locs, dtype=torch.int64) for locs in (targets, sources))
        self._hybrid().move_kv_cache(*index)

    def declared(self, kind: str, call: Callable[[SwaAllocator, KvPool, Any], None]) -> None:
        """See `Target.declared`."""
        call(self._allocator, self._pool, None)

    def raw_mapping(self) -> list[int]:
        """See `Target.raw_mapping`; the table that translations read."""
        mapping: list[int] = self._pool.full_to_swa_index_mapping.tolist()
        del mapping[-1]
        return mapping

    def raw_free(self) -> FreeSlots:
        """See `Target.raw_free`."""
        full, swa = self._allocator.full, self._allocator.swa
        return FreeSlots(full.free_pages(), swa.free_pages(), (full.available_size(), swa.available_size()))

    def raw_contents(self, layer: int) -> Rows:
        """See `Target.raw_contents`."""
        return decode(*self._pool.layer_buffers(layer))

    def cache_hits(self) -> int:
        """See `Target.cache_hits`."""
        return self._pool.policy.hits

    def _hybrid(self) -> HybridPool:
        if not isinstance(self._pool, HybridPool):
            raise TargetError(_DSV4_MISSING["cpu_copy"])
        return self._pool
