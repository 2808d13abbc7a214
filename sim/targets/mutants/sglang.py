"""Mutants of SGLang's own allocators, pools, prefix tree, host tier and speculative decode.

Sources are rewritten in memory while the release is loaded. An edit of the tree is made in its Python core, so it shows
with no other one; `UnifiedRadixCache` itself and the controller serve every core.
"""

from __future__ import annotations

from dataclasses import replace

from .patches import mutants
from .transform import Mutant

__all__ = ["ENGINE", "SGLANG_HOSTS", "SGLANG_RESULTS", "SGLANG_SPECS", "SGLANG_TREES"]

_CACHE = "sglang.srt.mem_cache"
_MODULES: dict[str, tuple[str, ...]] = {
    "allocator": (f"{_CACHE}.allocator.swa",),
    "pool": (f"{_CACHE}.swa_memory_pool",),
    "common": (f"{_CACHE}.common",),
    "allocation": (f"{_CACHE}.allocation",),
    "sizing": (f"{_CACHE}.allocation_sizing",),
    "component": (
        f"{_CACHE}.unified_cache.components.swa",
        f"{_CACHE}.unified_cache.components.swa_component",
        f"{_CACHE}.unified_cache_components.swa_component",
    ),
    "core": (f"{_CACHE}.unified_cache.unified_tree_core",),
    "tree": (f"{_CACHE}.unified_radix_cache",),
    "controller": (f"{_CACHE}.hybrid_cache.hybrid_cache_controller",),
    "eagle_utils": ("sglang.srt.speculative.eagle_utils",),
    "eagle_worker": ("sglang.srt.speculative.eagle_worker_common",),
    "spec_utils": ("sglang.srt.speculative.spec_utils",),
}
_CALLS = Mutant("sglang-", "sglang", (), "hybrid", ("native",), "")
_TREE = replace(_CALLS, policies=("native", "python-core"), level="engine")
_SPEC = replace(
    _TREE, name="sglang-spec-", policies=("python-core", "rust-core"), releases=">=0.5.22", features=("spec",)
)

ENGINE = mutants(
    _CALLS,
    """
free-swa-clears-given-locs [free_swa] releases=>=0.5.14,<0.5.19
    reverts the fix of PR 27779: evicting a part of a page unmaps that part alone
    @@ allocator SWATokenToKVPoolAllocator.free_swa
    - self.full_to_swa_index_mapping[mapping_indices] = 0
    + self.full_to_swa_index_mapping[free_index] = 0
clear-keeps-mapping [clear] releases=>=0.5.13
    flushing frees every slot and leaves every loc mapped
    @@ allocator SWATokenToKVPoolAllocator.clear
    - self.full_to_swa_index_mapping[:-1].fill_(0)
cpu-copy-without-mask [cpu_copy load_cpu_copy] releases=>=0.5.12
    reverts the fix of PR 24036: an evicted token's row is saved from the padding slot
    @@ pool SWAKVPool.get_cpu_copy
    - swa_indices > 0
    + swa_indices >= 0
move-in-full-pool-only [move] releases=>=0.5.12
    accepted tokens move in full layers and stay where they were in SWA layers
    @@ pool SWAKVPool.move_kv_cache
    - self.swa_kv_pool.move_kv_cache(tgt_loc_swa, src_loc_swa)
""",
    _MODULES,
)

SGLANG_RESULTS = mutants(
    replace(_TREE, name="sglang-results-", events=("results",)),
    """
full-group-stays-open releases=>=0.5.20
    the end of a group forgets the group of the full pool's allocator
    @@ allocator SWATokenToKVPoolAllocator.free_group_end
    - self.full_attn_allocator.free_group_end()
swa-pages-lost releases=>=0.5.20
    the end of a group forgets the SWA pages of the rows that were freed in it
    @@ allocator SWATokenToKVPoolAllocator.free_group_end
    - self.swa_attn_allocator.free_page_ids(torch.cat(swa_page_ids_group))
    + pass
""",
    _MODULES,
)

SGLANG_TREES = mutants(
    _TREE,
    """
split-swaps-swa releases=>=0.5.11
    a split gives each half the SWA locs of the other
    @@ component SWAComponent.redistribute_on_node_split
    - child_swa_value[:split_len].clone()
    + child_swa_value[-split_len:].clone()
    @@ component SWAComponent.redistribute_on_node_split
    - child_swa_value[split_len:].clone()
    + child_swa_value[:-split_len].clone()
tombstone-counts-as-evictable [evict] releases=>=0.5.17
    evicted SWA tokens still count as evictable, and a request is admitted with slots that no eviction frees
    @@ component SWAComponent.evict_component
    - self.tree_core.component_evictable_size_[ct] -= freed
split-drops-swa-lock releases=>=0.5.11
    the parent that a split makes keeps no SWA slots, although the window reaches into it
    @@ component SWAComponent.redistribute_on_node_split
    - new_parent.component_data[self.component_type].lock_ref = child.component_data[self.component_type].lock_ref
lock-window-page-short [evict] releases=>=0.5.11
    the SWA lock ends one page before the window does
    @@ component SWAComponent.acquire_component_lock
    - sliding_window_size = self.sliding_window_size
    + sliding_window_size = max(1, self.sliding_window_size - self.cache.page_size)
unlock-keeps-swa releases=>=0.5.13
    SWA locks are never released, and their slots are never freed
    @@ component SWAComponent.release_component_lock
    - comp.lock_ref = ref - 1
unlock-without-boundary releases=>=0.5.13
    a lock is released without its window boundary and takes other requests' SWA locks with it (PR 27038)
    @@ component SWAComponent.release_component_lock
    - swa_uuid_for_lock and comp.metadata.get(uuid_key) == swa_uuid_for_lock
    + False
window-page-too-many [evict_window] releases=>=0.5.23 policies=native,python-core,rust-core
    window eviction frees one page that the next token still reads
    @@ common free_swa_out_of_window_slots
    - ceil_align(max(sliding_window_size, page_size), page_size)
    + (ceil_align(max(sliding_window_size, page_size), page_size) - page_size)
insert-ignores-evicted-length [evict_window checkpoint] releases=>=0.5.21 policies=native,python-core,rust-core
    tokens that window eviction freed are inserted into the tree as if they had SWA rows
    @@ component SWAComponent.prepare_for_caching_req
    - insert_params.set_evicted_seqlen(self.component_type, req.kv.get_evicted_seqlen(self.component_type))
recovery-frees-locked-full [evict_window checkpoint] releases=>=0.5.21
    a recovery frees full slots that another request still reads, as releases up to 0.5.14 did
    @@ component SWAComponent._recover_from_incoming
    - full_cd.lock_ref > 0
    + full_cd.lock_ref > 1
recovery-frees-through-stale-mapping [evict_window checkpoint] releases=>=0.5.22
    a recovery frees the request's full slots while they still map to the SWA slots that the tombstone just got (PRs
    27586, 27789)
    @@ component SWAComponent._set_swa
    - allocator.clear_full_to_swa_mapping(incoming_full)
    @@ component SWAComponent.apply_component_action
    - alloc.free_full_segment(action.incoming_full, start_pos=0)
    + alloc.free_segment(action.incoming_full, start_pos=0)
""",
    _MODULES,
)

SGLANG_HOSTS = mutants(
    _TREE,
    """
load-back-without-mapping [evict admit] releases=>=0.5.17
    SWA rows are loaded back from the host, and the full locs are not mapped to them
    @@ component SWAComponent.commit_hicache_transfer
    - cache_actions.append(RebuildFullToSWAMapping(full_chunks, swa_chunks))
load-back-swaps-swa-chunks [evict admit] releases=>=0.5.12
    a load-back gives the SWA slots of the last node to the first
    @@ component SWAComponent.commit_hicache_transfer
    - device_indices[offset : offset + n_tokens].clone()
    + device_indices[len(device_indices) - offset - n_tokens : len(device_indices) - offset].clone()
load-back-without-host-pin [evict admit] releases=>=0.5.18
    host slots may be reused while their rows are still being copied to the device
    @@ core UnifiedTreeCore._can_reclaim_full_host_duplicate
    - node.write_through_pending_id is not None or node.load_back_pending_id is not None
    + node.write_through_pending_id is not None
    @@ core UnifiedTreeCore._can_reclaim_full_host_duplicate
    - cd.host_lock_ref == 0
    + True
load-back-keeps-host-lock [evict admit] releases=>=0.5.14
    a finished load-back keeps its host lock, so those host slots are never reused
    @@ tree UnifiedRadixCache.loading_check
    - self.dec_host_lock_ref(node, host_lock_params)
split-drops-host-lock [evict admit] releases=>=0.5.20
    the parent that a split makes keeps no host SWA slots, although a load-back still reads both halves
    @@ component SWAComponent.redistribute_on_node_split
    - new_parent.component_data[
    -     self.component_type
    - ].host_lock_ref = child.component_data[self.component_type].host_lock_ref
    @@ component SWAComponent.redistribute_on_node_split
    - parent_swa_data.host_lock_ref = child_swa_data.host_lock_ref
load-back-is-no-duplicate [evict admit transfer_done] releases=>=0.5.23
    host slots of a node that was loaded back are not offered first when the host runs short
    @@ core UnifiedTreeCore.finish_load_back
    - self._update_duplicate_tracking(node)
write-through-without-lock [evict transfer_done] releases=>=0.5.17 policies=native,python-core,rust-core
    device slots may be freed before their write-through is acknowledged
    @@ tree UnifiedRadixCache._execute_and_commit_kv_backup
    - not write_back
    + False
backup-of-one-component [evict admit] releases=>=0.5.18 policies=native,python-core,rust-core
    a backup reserves host slots on both sides and copies only the full rows
    @@ controller HybridCacheController._l2_transfers
    + continue
      entry = self.mem_pool_host.entry_map[pool_transfer.name]
eviction-forgets-host [evict admit] releases=>=0.5.17
    an evicted node's host slots are never freed
    @@ component SWAComponent.evict_component
    - host_frees[ct].append(cd.host_value)
""",
    _MODULES,
)

SGLANG_SPECS = mutants(
    _SPEC,
    """
surplus-kept [prepare_decode finish]
    a request that leaves frees only its committed slots and leaks the rest
    @@ common _release_overallocated_kv_indices
    - tree_cache.free_kv_row(req.kv, [(start_p, end_p)])
surplus-from-the-token [prepare_decode finish]
    the surplus is freed from its first token on, although that token's page was freed before
    @@ common _release_overallocated_kv_indices
    - start_p = ceil_align(start_p, page_size)
reserve-of-one-step [prepare_decode]
    a row is extended for one step only, as if every step were committed before the next one is prepared
    @@ sizing get_alloc_reserve_per_decode
    - 2 * get_alloc_len_per_decode()
    + get_alloc_len_per_decode()
reserve-in-tokens [prepare_decode]
    whole pages are allocated, and the requested length is recorded (SGLang PR 31616)
    @@ sizing page_aligned_decode_alloc_lens
    - (r.kv.kv_committed_len + reserve + page_size - 1) // page_size * page_size
    + r.kv.kv_committed_len + reserve
window-never-evicted [prepare_decode]
    a step's preparation evicts no window (SGLang PR 34924)
    @@ eagle_utils eagle_prepare_for_decode
    - batch.maybe_evict_swa()
window-a-page-short [prepare_decode] releases=>=0.5.23
    the kept window is one page too short
    @@ common free_swa_out_of_window_slots
    - pre_len - ceil_align(max(sliding_window_size, page_size), page_size)
    + pre_len - ceil_align(max(sliding_window_size, page_size), page_size) + page_size
accepted-not-moved [prepare_decode target_verify]
    the KV of an accepted path stays at the nodes where it was written
    @@ spec_utils move_accept_tokens_to_target_kvcache
    - token_to_kv_pool_allocator.get_kvcache().move_kv_cache(tgt_cache_loc, accept_out_cache_loc)
allocated-from-committed [prepare_decode] releases=>=0.5.23
    a row that is extended gets new slots from its committed length on, in place of those that it has
    @@ sizing page_aligned_decode_alloc_lens
    - r.kv.kv_allocated_len
    + r.kv.kv_committed_len
moved-one-short [prepare_decode target_verify] releases=>=0.5.23
    the last token of an accepted path stays at the node where it was written
    @@ spec_utils move_accept_tokens_to_target_kvcache
    - num_correct_drafts + 1
    + num_correct_drafts
recorded-one-step-short [prepare_decode] releases=>=0.5.23
    a row that is extended is recorded a token shorter than it is
    @@ allocation alloc_for_spec_decode
    - max(req.kv.kv_allocated_len, nxt_kv_len)
    + max(req.kv.kv_allocated_len, nxt_kv_len - 1)
page-not-copied [prepare_decode draft_tree]
    all branches of a draft but the first start on pages without the tokens before them
    @@ eagle_worker duplicate_prefix_tail_to_draft_branches
    - token_to_kv_pool.move_kv_cache(tgt_slots, src_slots)
""",
    _MODULES,
)
