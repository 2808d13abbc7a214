"""Mutants of SGLang's own prefix tree and its host tier: locks, windows, rows, ledgers, tombstones, write-backs.

Those that name no policies are made in the Python core.
"""

from __future__ import annotations

from dataclasses import replace

from .patches import mutants
from .transform import Mutant

__all__ = ["SGLANG_LOCKS", "SGLANG_NODES", "SGLANG_TIERS"]

_CACHE = "sglang.srt.mem_cache"
_MODULES: dict[str, tuple[str, ...]] = {
    "common": (f"{_CACHE}.common",),
    "core": (f"{_CACHE}.unified_cache.unified_tree_core",),
    "full": (f"{_CACHE}.unified_cache.components.full",),
    "swa": (f"{_CACHE}.unified_cache.components.swa",),
    "tree": (f"{_CACHE}.unified_radix_cache",),
    "controller": (f"{_CACHE}.hybrid_cache.hybrid_cache_controller",),
    "cache_controller": ("sglang.srt.managers.cache_controller",),
}
_TREE = Mutant(
    *("sglang-tree-", "sglang", (), "hybrid", ("native", "python-core"), ""), releases=">=0.5.23", level="engine"
)

SGLANG_LOCKS = mutants(
    _TREE,
    """
locks-former-node [checkpoint] policies=native,python-core,rust-core
    a request that was inserted locks the node that it matched, and not the one that it was inserted as
    @@ tree UnifiedRadixCache.checkpoint_into_tree
    + self.unlock(req.lock)
    + req.lock = self.lock(req.last_node)
      req.kv.cache_protected_len = len(new_indices)
keeps-former-lock [checkpoint] policies=native,python-core,rust-core
    a request that is inserted keeps the lock of its prefix beside the new one
    @@ tree UnifiedRadixCache.checkpoint_into_tree
    - self.unlock(req.lock)
split-copies-boundary
    a split leaves the mark of a window's first node on both halves, and a release stops at the later one
    @@ swa SWAComponent.redistribute_on_node_split
    - child.component_data[self.component_type].metadata.pop("uuid", None)
split-drops-full-lock
    the parent that a split makes is locked by nobody
    @@ full FullComponent.redistribute_on_node_split
    - new_parent.component_data[ct].lock_ref = child.component_data[ct].lock_ref
leaves-keep-their-lock [finish] policies=native,python-core,rust-core
    a request that leaves keeps its lock
    @@ common release_kv_cache
    - tree_cache.unlock(req.lock)
""",
    _MODULES,
)

SGLANG_NODES = mutants(
    _TREE,
    """
row-one-short [finish] policies=native,python-core,rust-core
    a request that leaves frees its row without the last token
    @@ common release_kv_cache
    - tree_cache.free_kv_row(req.kv, [(req.kv.cache_protected_len, owned_kv_len)])
    + tree_cache.free_kv_row(req.kv, [(req.kv.cache_protected_len, max(req.kv.cache_protected_len, owned_kv_len - 1))])
duplicates-page-too-near [checkpoint]
    an insertion frees the page of the tree before the request's own
    @@ core UnifiedTreeCore._insert_overlap_step
    - state.params.prev_prefix_len - state.total_prefix_length
    + state.params.prev_prefix_len - state.total_prefix_length - self.page_size
window-recorded-page-too-far [evict_window] policies=native,python-core,rust-core
    the window is recorded as evicted a page further than it was
    @@ common free_swa_out_of_window_slots
    - req.kv.set_evicted_seqlen(component_type, new_evicted_seqlen)
    + req.kv.set_evicted_seqlen(component_type, new_evicted_seqlen + page_size)
window-inserted-page-too-near [evict_window checkpoint]
    an insertion takes the last page of the evicted window into the tree as if it had SWA slots
    @@ swa SWAComponent._clip_to_window
    - max(start, window_start)
    + max(start, window_start - self.tree_core.page_size)
protected-counts-as-evictable [checkpoint]
    SWA slots that a locked node takes over count as evictable
    @@ core UnifiedTreeCore.set_component_device_value
    - cd.lock_ref > 0
    + False
eviction-counts-twice [evict]
    an eviction counts each token that it frees twice, and ends too soon
    @@ core UnifiedTreeCore._evict_component_and_detach_lru
    - tracker[comp.component_type] += device_freed
    + tracker[comp.component_type] += 2 * device_freed
restored-counts-twice [evict checkpoint]
    full slots that a node on the host takes over from a request are counted twice
    @@ core UnifiedTreeCore._unevict_node_on_insert
    - self.component_evictable_size_[ct] += n
    + self.component_evictable_size_[ct] += 2 * n
tombstone-keeps-slots [evict]
    a tombstone still names the SWA slots that its eviction freed
    @@ swa SWAComponent.evict_component
    - cd.value = None
""",
    _MODULES,
)

SGLANG_TIERS = mutants(
    replace(_TREE, name="sglang-host-", host=True),
    """
full-split-drops-lock [evict admit]
    the parent that a split makes is not locked on the host, although a load-back still reads both halves
    @@ full FullComponent.redistribute_on_node_split
    - new_parent.component_data[ct].host_lock_ref = child_cd.host_lock_ref
split-copies-boundary [evict admit]
    a split leaves the mark of a load-back's first node on both halves, and its release stops at the later one
    @@ swa SWAComponent.redistribute_on_node_split
    - child.component_data[self.component_type].metadata.pop("host_uuid", None)
backup-keeps-full-slots [evict] policies=native,python-core,rust-core
    a backup that finds no SWA slots on the host keeps the full slots that it has taken there
    @@ controller HybridCacheController.allocate_host_transfers
    - self.mem_pool_host.free(host_indices)
write-queue-kept [evict] policies=native,python-core,rust-core
    backups that were started stay in the queue and are started again
    @@ cache_controller HiCacheController.start_writing
    - self.write_queue.clear()
sorted-without-device [evict] policies=native,python-core,rust-core
    host slots are sorted for a copy, and the device's are left in their order
    @@ cache_controller HiCacheController.move_indices
    - device_indices.index_select(0, idx)
    + device_indices
backup-swaps-swa-chunks [evict]
    a backup of several nodes gives the host's SWA slots of the first to the last
    @@ swa SWAComponent.commit_hicache_transfer
    - xfer.nodes_to_load or [node.id]
    + reversed(xfer.nodes_to_load or [node.id])
load-back-keeps-device-lock [evict admit] policies=native,python-core,rust-core
    a finished load-back keeps its lock on the device
    @@ tree UnifiedRadixCache.loading_check
    - self.dec_lock_ref(node, lock_params)
load-back-pin-kept [evict admit]
    a finished load-back leaves its nodes pinned, and nothing reuses their host slots
    @@ core UnifiedTreeCore.finish_load_back
    - node.load_back_pending_id = None
    + pass
tombstone-leaves-host-list [evict]
    SWA slots on the host of a tombstone are never offered for reuse
    @@ swa SWAComponent.evict_component
    - host_lru.insert_mru(node)
    + pass
split-half-is-no-duplicate [evict admit]
    of a node in both tiers that is split, one half's host slots are not offered first
    @@ core UnifiedTreeCore._split_node
    - self._update_duplicate_tracking(new_node)
""",
    _MODULES,
)
