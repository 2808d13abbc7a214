"""Mutants of SGLang's own prefix tree and host tier: whole requests are driven through them.

An edit of the tree is made in its Python core, so it shows with no other one; `UnifiedRadixCache` itself
and the controller serve every core.
"""

from __future__ import annotations

from .edits import before, drop, swap
from .transform import Edit, Mutant

__all__ = ["SGLANG_HOSTS", "SGLANG_TREES"]

_CACHE = "sglang.srt.mem_cache"
_COMMON = f"{_CACHE}.common"
_CORE = f"{_CACHE}.unified_cache.unified_tree_core"
_TREE = f"{_CACHE}.unified_radix_cache"
_CONTROLLER = f"{_CACHE}.hybrid_cache.hybrid_cache_controller"
_SWA = f"{_CACHE}.unified_cache.components.swa"
_FORMER = {
    _SWA: (
        f"{_CACHE}.unified_cache.components.swa_component",
        f"{_CACHE}.unified_cache_components.swa_component",
    )
}

_PYTHON = ("native", "python-core")
_ANY_CORE = (*_PYTHON, "rust-core")


def _sglang(
    name: str,
    releases: str,
    story: str,
    *edits: Edit,
    policies: tuple[str, ...] = _PYTHON,
    events: tuple[str, ...] = (),
) -> Mutant:
    placed = tuple(
        Edit(edit.module, edit.scope, edit.op, edit.old, edit.new, _FORMER.get(edit.module, ())) for edit in edits
    )
    return Mutant(f"sglang-{name}", "sglang", placed, "hybrid", policies, story, events, releases, "engine")


SGLANG_TREES: tuple[Mutant, ...] = (
    _sglang(
        "split-swaps-swa",
        ">=0.5.11",
        "a split leaves the SWA locs of each half on the other",
        swap(
            _SWA,
            "SWAComponent.redistribute_on_node_split",
            "child_swa_value[:split_len].clone()",
            "child_swa_value[-split_len:].clone()",
        ),
        swap(
            _SWA,
            "SWAComponent.redistribute_on_node_split",
            "child_swa_value[split_len:].clone()",
            "child_swa_value[:-split_len].clone()",
        ),
    ),
    _sglang(
        "split-drops-swa-lock",
        ">=0.5.11",
        "the parent that a split makes keeps no SWA slots, although the window reaches into it",
        drop(
            _SWA,
            "SWAComponent.redistribute_on_node_split",
            "new_parent.component_data[self.component_type].lock_ref = "
            "child.component_data[self.component_type].lock_ref",
        ),
    ),
    _sglang(
        "lock-window-page-short",
        ">=0.5.11",
        "the SWA lock ends one page before the window does",
        swap(
            _SWA,
            "SWAComponent.acquire_component_lock",
            "sliding_window_size = self.sliding_window_size",
            "sliding_window_size = max(1, self.sliding_window_size - self.cache.page_size)",
        ),
        events=("evict",),
    ),
    _sglang(
        "unlock-keeps-swa",
        ">=0.5.13",
        "SWA locks are never given up, and their slots stay for ever",
        drop(_SWA, "SWAComponent.release_component_lock", "comp.lock_ref = ref - 1"),
    ),
    _sglang(
        "unlock-without-boundary",
        ">=0.5.13",
        "a lock is released without its window boundary and takes other requests' SWA locks with it (PR 27038)",
        swap(
            _SWA,
            "SWAComponent.release_component_lock",
            "swa_uuid_for_lock and comp.metadata.get(uuid_key) == swa_uuid_for_lock",
            "False",
        ),
    ),
    _sglang(
        "window-page-too-many",
        ">=0.5.23",
        "window eviction takes one page that the next token still reads",
        swap(
            _COMMON,
            "free_swa_out_of_window_slots",
            "ceil_align(max(sliding_window_size, page_size), page_size)",
            "(ceil_align(max(sliding_window_size, page_size), page_size) - page_size)",
        ),
        policies=_ANY_CORE,
        events=("evict_window",),
    ),
    _sglang(
        "insert-ignores-evicted-length",
        ">=0.5.21",
        "what window eviction has freed goes into the tree as if it had SWA rows",
        drop(
            _SWA,
            "SWAComponent.prepare_for_caching_req",
            "insert_params.set_evicted_seqlen(self.component_type, req.kv.get_evicted_seqlen(self.component_type))",
        ),
        policies=_ANY_CORE,
        events=("evict_window", "checkpoint"),
    ),
    _sglang(
        "recovery-frees-locked-full",
        ">=0.5.21",
        "a recovery frees full slots that one other request still reads, as releases up to 0.5.14 did",
        swap(_SWA, "SWAComponent._recover_from_incoming", "full_cd.lock_ref > 0", "full_cd.lock_ref > 1"),
        events=("evict_window", "checkpoint"),
    ),
    _sglang(
        "recovery-frees-through-stale-mapping",
        ">=0.5.22",
        "a recovery frees the request's full slots while they still map to the SWA slots that the tombstone just got "
        "(PRs 27586, 27789)",
        drop(_SWA, "SWAComponent._set_swa", "allocator.clear_full_to_swa_mapping(incoming_full)"),
        swap(
            _SWA,
            "SWAComponent.apply_component_action",
            "alloc.free_full_segment(action.incoming_full, start_pos=0)",
            "alloc.free_segment(action.incoming_full, start_pos=0)",
        ),
        events=("evict_window", "checkpoint"),
    ),
)

SGLANG_HOSTS: tuple[Mutant, ...] = (
    _sglang(
        "load-back-without-mapping",
        ">=0.5.17",
        "SWA rows come back from the host and nobody maps the full locs to them",
        drop(
            _SWA,
            "SWAComponent.commit_hicache_transfer",
            "cache_actions.append(RebuildFullToSWAMapping(full_chunks, swa_chunks))",
        ),
        events=("evict", "admit"),
    ),
    _sglang(
        "load-back-swaps-swa-chunks",
        ">=0.5.12",
        "a load-back gives the SWA slots of the last node to the first",
        swap(
            _SWA,
            "SWAComponent.commit_hicache_transfer",
            "device_indices[offset : offset + n_tokens].clone()",
            "device_indices[len(device_indices) - offset - n_tokens : len(device_indices) - offset].clone()",
        ),
        events=("evict", "admit"),
    ),
    _sglang(
        "load-back-without-host-pin",
        ">=0.5.18",
        "host slots may be reused while their rows are still being copied to the device",
        swap(
            _CORE,
            "UnifiedTreeCore._can_reclaim_full_host_duplicate",
            "node.write_through_pending_id is not None or node.load_back_pending_id is not None",
            "node.write_through_pending_id is not None",
        ),
        swap(_CORE, "UnifiedTreeCore._can_reclaim_full_host_duplicate", "cd.host_lock_ref == 0", "True"),
        events=("evict", "admit"),
    ),
    _sglang(
        "load-back-keeps-host-lock",
        ">=0.5.14",
        "a load-back that is over leaves its host lock behind: those host slots are never given to others",
        drop(_TREE, "UnifiedRadixCache.loading_check", "self.dec_host_lock_ref(node, host_lock_params)"),
        events=("evict", "admit"),
    ),
    _sglang(
        "write-through-without-lock",
        ">=0.5.17",
        "device slots may be freed before their write-through is acknowledged",
        swap(_TREE, "UnifiedRadixCache._execute_and_commit_kv_backup", "not write_back", "False"),
        policies=_ANY_CORE,
        events=("evict", "transfer_done"),
    ),
    _sglang(
        "backup-of-one-component",
        ">=0.5.18",
        "a backup reserves host slots on both sides and copies the full rows alone",
        before(
            _CONTROLLER,
            "HybridCacheController._l2_transfers",
            "entry = self.mem_pool_host.entry_map[pool_transfer.name]",
            "continue",
        ),
        policies=_ANY_CORE,
        events=("evict", "admit"),
    ),
    _sglang(
        "eviction-forgets-host",
        ">=0.5.17",
        "an evicted node's host slots are never free again",
        drop(_SWA, "SWAComponent.evict_component", "host_frees[ct].append(cd.host_value)"),
        events=("evict", "admit"),
    ),
)
