"""Mutants of SGLang's own allocation, release and eviction for speculative decode (V2)."""

from __future__ import annotations

from .edits import drop, swap
from .transform import Edit, Mutant

__all__ = ["SGLANG_SPECS"]

_CACHE = "sglang.srt.mem_cache"
_COMMON = f"{_CACHE}.common"
_SIZING = f"{_CACHE}.allocation_sizing"
_SPEC = "sglang.srt.speculative"


def _speculative(
    name: str,
    story: str,
    *edits: Edit,
    events: tuple[str, ...] = ("prepare_decode",),
    releases: str = ">=0.5.22",
) -> Mutant:
    policies = ("python-core", "rust-core")
    return Mutant(
        f"sglang-spec-{name}", "sglang", edits, "hybrid", policies, story, events, releases, "engine", ("spec",)
    )


SGLANG_SPECS: tuple[Mutant, ...] = (
    _speculative(
        "surplus-kept",
        "a request that leaves gives back what is committed and forgets the rest",
        drop(_COMMON, "_release_overallocated_kv_indices", "tree_cache.free_kv_row(req.kv, [(start_p, end_p)])"),
        events=("prepare_decode", "finish"),
    ),
    _speculative(
        "surplus-from-the-token",
        "the surplus is freed from its first token on, although the page that token lies on was freed before",
        drop(_COMMON, "_release_overallocated_kv_indices", "start_p = ceil_align(start_p, page_size)"),
        events=("prepare_decode", "finish"),
    ),
    _speculative(
        "reserve-of-one-step",
        "a row is extended for one step only, as if every step were committed before the next one is prepared",
        swap(_SIZING, "get_alloc_reserve_per_decode", "2 * get_alloc_len_per_decode()", "get_alloc_len_per_decode()"),
    ),
    _speculative(
        "reserve-in-tokens",
        "whole pages are allocated, and the length that was asked for is recorded (SGLang PR 31616)",
        swap(
            _SIZING,
            "page_aligned_decode_alloc_lens",
            "(r.kv.kv_committed_len + reserve + page_size - 1) // page_size * page_size",
            "r.kv.kv_committed_len + reserve",
        ),
    ),
    _speculative(
        "window-never-evicted",
        "a step's preparation evicts no window (SGLang PR 34924)",
        drop(f"{_SPEC}.eagle_utils", "eagle_prepare_for_decode", "batch.maybe_evict_swa()"),
    ),
    _speculative(
        "window-a-page-short",
        "the window that is kept ends one page early",
        swap(
            _COMMON,
            "free_swa_out_of_window_slots",
            "pre_len - ceil_align(max(sliding_window_size, page_size), page_size)",
            "pre_len - ceil_align(max(sliding_window_size, page_size), page_size) + page_size",
        ),
        releases=">=0.5.23",
    ),
    _speculative(
        "accepted-not-moved",
        "the KV of an accepted path stays at the nodes that it was written for",
        drop(
            f"{_SPEC}.spec_utils",
            "move_accept_tokens_to_target_kvcache",
            "token_to_kv_pool_allocator.get_kvcache().move_kv_cache(tgt_cache_loc, accept_out_cache_loc)",
        ),
        events=("prepare_decode", "target_verify"),
    ),
    _speculative(
        "page-not-copied",
        "the branches of a draft but the first begin on pages that lack the tokens before them",
        drop(
            f"{_SPEC}.eagle_worker_common",
            "duplicate_prefix_tail_to_draft_branches",
            "token_to_kv_pool.move_kv_cache(tgt_slots, src_slots)",
        ),
        events=("prepare_decode", "draft_tree"),
    ),
)
