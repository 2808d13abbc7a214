"""Mutants of real SGLang sources, rewritten in memory while the release is loaded."""

from __future__ import annotations

from .contents import CPU_COPY
from .edits import drop, swap
from .transform import Edit, Mutant

__all__ = ["ENGINE"]

_MODERN = "sglang.srt.mem_cache.allocator.swa"
_POOL = "sglang.srt.mem_cache.swa_memory_pool"


def _sglang(name: str, releases: str, story: str, *edits: Edit, events: tuple[str, ...] = ()) -> Mutant:
    return Mutant(f"sglang-{name}", "sglang", edits, "hybrid", ("native",), story, events, releases)


ENGINE: tuple[Mutant, ...] = (
    _sglang(
        "free-swa-clears-given-locs",
        ">=0.5.14,<0.5.19",
        "takes back the fix of PR 27779: evicting a part of a page unmaps that part alone",
        swap(
            _MODERN,
            "SWATokenToKVPoolAllocator.free_swa",
            "self.full_to_swa_index_mapping[mapping_indices] = 0",
            "self.full_to_swa_index_mapping[free_index] = 0",
        ),
        events=("free_swa",),
    ),
    _sglang(
        "clear-keeps-mapping",
        ">=0.5.13",
        "flushing frees every slot and leaves every loc mapped",
        drop(_MODERN, "SWATokenToKVPoolAllocator.clear", "self.full_to_swa_index_mapping[:-1].fill_(0)"),
        events=("clear",),
    ),
    _sglang(
        "cpu-copy-without-mask",
        ">=0.5.12",
        "takes back the fix of PR 24036: an evicted token's row is saved from the padding slot",
        swap(_POOL, "SWAKVPool.get_cpu_copy", "swa_indices > 0", "swa_indices >= 0"),
        events=CPU_COPY,
    ),
    _sglang(
        "move-in-full-pool-only",
        ">=0.5.12",
        "accepted tokens move in full layers and stay where they were in SWA layers",
        drop(_POOL, "SWAKVPool.move_kv_cache", "self.swa_kv_pool.move_kv_cache(tgt_loc_swa, src_loc_swa)"),
        events=("move",),
    ),
)
