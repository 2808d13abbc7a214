"""Mutants of SGLang's own admission: budgets that forget a part, locks of those who are looked at."""

from __future__ import annotations

from .patches import mutants
from .transform import Mutant

__all__ = ["SGLANG_SCHEDULES"]

_CACHE = "sglang.srt.mem_cache"

SGLANG_SCHEDULES = mutants(
    Mutant(
        *("sglang-schedule-", "sglang", (), "hybrid", ("native", "python-core"), ""),
        level="engine",
        releases=">=0.5.23",
        features=("scheduler",),
    ),
    """
budget-forgets-swa
    SWA slots of those who are admitted in the same round are not subtracted
    @@ budget SWAPrefillBudget.reserve
    - self.swa_offset += self.swa_tokens(
    -     self.ceil_paged_tokens(extend_input_len), max_new_tokens, chunk_limit=chunk_limit
    - )
    + pass
budget-counts-locked
    SWA slots of the tree that running requests lock count as room
    @@ budget SWAPrefillBudget.remaining_swa
    - self.allocator.swa_available_size() + evictable - self.swa_offset
    + self.allocator.swa_available_size() + evictable + self.tree_cache.swa_protected_size() - self.swa_offset
budget-forgets-tail
    what a chunk has before its window is not counted
    @@ budget estimate_swa_kv_tokens
    - max(allocated - sliding_window_size, 0)
    + 0
chunk-never-cut
    a prompt that is longer than its window's pool is never computed in parts
    @@ budget SWAPrefillBudget._chunk_cap
    - max(0, cap // self.page_size * self.page_size)
    + 0
refused-keeps-its-lock
    a request that is looked at, admitted or not, leaves its prefix locked
    @@ policy PrefillAdder._lock_node
    - self.tree_cache.unlock(lock)
    + pass
""",
    {
        "budget": (f"{_CACHE}.prefill_budget",),
        "policy": ("sglang.srt.managers.schedule_policy",),
    },
)
