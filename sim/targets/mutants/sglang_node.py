"""Mutants of SGLang's decode nodes: what their queues count, and what they allocate, send, copy and free.

They show with the Python tree core, whose locks can be seen: budgets beside a Rust tree are not judged.
"""

from __future__ import annotations

from dataclasses import replace

from .patches import mutants
from .transform import Mutant

__all__ = ["SGLANG_BUDGETS", "SGLANG_COPIES", "SGLANG_SLOTS"]

_CACHE = "sglang.srt.mem_cache"
_MODULES: dict[str, tuple[str, ...]] = {
    "decode": ("sglang.srt.disaggregation.decode",),
    "request": ("sglang.srt.managers.schedule_batch",),
    "allocator": (f"{_CACHE}.allocator.swa",),
    "pool": (f"{_CACHE}.swa_memory_pool",),
    "tree": (f"{_CACHE}.unified_radix_cache",),
}
_NODE = Mutant(
    *("sglang-node-", "sglang", (), "hybrid", ("native", "python-core"), ""),
    events=("preallocate",),
    level="engine",
    features=("disagg",),
)
_COPY = replace(_NODE, name="sglang-node-copy-", events=("preallocate", "retract", "resume"))

SGLANG_BUDGETS = mutants(
    _NODE,
    """
tail-starts-a-page-late releases=>=0.5.12
    the tail starts one page after the window's first page
    @@ decode DecodePreallocQueue._swa_tail_len
    - window_start // page_size * page_size
    + -(-window_start // page_size) * page_size
length-counts-the-newest-token [retract] releases=>=0.5.16
    a resumed request gets a slot for its newest token too, which has no KV
    @@ decode DecodePreallocQueue._pre_alloc_fill_len
    - max(len(req.output_ids) - 1, 0)
    + len(req.output_ids)
tail-charged-in-tokens releases=>=0.5.18
    reverts half of the fix of PR 33794: a tail is charged in tokens and allocated in pages
    @@ decode DecodePreallocQueue._prealloc_required_tokens
    - swa_len = ceil_align(swa_len, page_size)
retraction-frees-whole-prompts releases=>=0.5.12
    a retraction is assumed to free the SWA slots of the whole prompt
    @@ decode DecodePreallocQueue._swa_retractable_len
    - self._swa_tail_len(len(req.origin_input_ids))
    + len(req.origin_input_ids)
forgets-requests-in-transfer releases=>=0.5.21
    no tokens are reserved for the decode of a request in transfer
    @@ decode DecodePreallocQueue._active_req_count
    - sum(not r.host_staged for r in self.transfer_queue.queue)
    + 0
locked-tokens-can-be-evicted releases=>=0.5.19
    the full budget counts tokens of the tree that running requests lock
    @@ decode DecodePreallocQueue._radix_full_evictable
    - self.tree_cache.full_evictable_size()
    + self.tree_cache.full_evictable_size() + self.tree_cache.full_protected_size()
windows-grow-for-ever releases=>=0.5.12
    the SWA budget subtracts every reserved token, as if no window were ever evicted
    @@ decode DecodePreallocQueue._swa_tail_allocatable_token_budget
    - min(reserved_tokens, swa_growth_potential)
    + reserved_tokens
full-budget-forgets-retracted [retract] releases=>=0.5.12
    new requests get the full slots that retracted ones need to resume
    @@ decode DecodePreallocQueue._allocatable_token_budgets
    - allocatable_tokens -= full_required
swa-budget-forgets-retracted [retract] releases=>=0.5.12
    new requests get the SWA slots that retracted ones need to resume
    @@ decode DecodePreallocQueue._swa_tail_allocatable_token_budget
    - swa_allocatable_tokens -= swa_required
full-budget-forgets-prebuilt [start] releases=>=0.5.12
    the full budget reserves nothing for a prebuilt batch
    @@ decode DecodePreallocQueue._allocatable_token_budgets
    - allocatable_tokens -= self.num_reserved_decode_tokens * len(self.scheduler.last_batch.reqs)
swa-budget-forgets-prebuilt [start] releases=>=0.5.12
    the SWA budget reserves nothing for a prebuilt batch
    @@ decode DecodePreallocQueue._swa_tail_allocatable_token_budget
    - swa_allocatable_tokens -= min(prebuilt_reserved_tokens, prebuilt_swa_growth)
takes-what-fits-no-node releases=>=0.5.12
    a request whose window needs more than the whole SWA pool is queued forever and blocks all others
    @@ decode DecodePreallocQueue._check_if_req_exceed_kv_capacity
    - swa_required > swa_capacity
    + False
resume-overtakes [retract resume] releases=>=0.5.22
    a retracted request that does not fit is skipped
    @@ decode DecodePreallocQueue.resume_retracted_reqs
    + if not self._prealloc_reservation_fits(
    +     *self._prealloc_required_tokens(req),
    +     full_allocatable_tokens=full_allocatable_tokens,
    +     swa_allocatable_tokens=swa_allocatable_tokens,
    + ):
    +     continue
      full_required, swa_required = self._prealloc_required_tokens(req)
resume-counts-itself [retract resume] releases=>=0.5.12
    a retracted request's own need is subtracted from the budget that it is checked against
    @@ decode DecodePreallocQueue.resume_retracted_reqs
    - self._swa_aware_allocatable_token_budgets(count_retracted=False)
    + self._swa_aware_allocatable_token_budgets(count_retracted=True)
admission-forgets-what-it-gave releases=>=0.5.19
    an admission is not subtracted from the full budget of its round
    @@ decode DecodePreallocQueue.pop_preallocated
    + full_allocatable_tokens += required_alloc_tokens
      decode_req.req.kv.cache_protected_len = total_prefix_len
""",
    _MODULES,
)

SGLANG_SLOTS = mutants(
    _NODE,
    """
tail-says-nothing [evict_window] releases=>=0.5.21
    reverts the fix of PR 28085: the evicted length of a tail preallocation stays at 0
    @@ decode alloc_for_decode_prealloc
    - req.kv.set_evicted_seqlen(ComponentType.SWA, swa_evicted_seqlen)
tail-mapped-to-the-front releases=>=0.5.13
    the SWA slots of a tail are mapped to the front of the request
    @@ allocator SWATokenToKVPoolAllocator.alloc_extend_swa_tail
    - alloc_full_indices[-swa_tail_len:]
    + alloc_full_indices[:swa_tail_len]
sender-gets-full-pages [transfer] releases=>=0.5.20
    the sender gets full pages instead of SWA pages
    @@ decode DecodePreallocQueue.pop_preallocated
    - self.token_to_kv_pool_allocator.translate_swa_indices_for_transfer(window_kv_indices_full)
    + window_kv_indices_full
sender-starts-inside-a-page [transfer] releases=>=0.5.12
    the first SWA page for the sender is computed from a position inside the page
    @@ decode DecodePreallocQueue.pop_preallocated
    - page_align_floor(window_start, page_size)
    + min(window_start + page_size - 1, seq_len - 1)
prefix-out-of-the-row [start] releases=>=0.5.19
    the cached prefix of a prompt is not written to the request's row
    @@ decode DecodePreallocQueue._pre_alloc
    - self.req_to_token_pool.write((req.kv.req_pool_idx, slice(0, prefix_len)), prefix_indices)
resume-evicts-no-swa [retract resume] releases=>=0.5.21
    reverts the fix of PR 40309: nothing is evicted from the tree for a tail that resumes
    @@ decode DecodePreallocQueue._pre_alloc
    - get_disagg().disaggregation_decode_enable_radix_cache and swa_pages_charged
    + False
resumed-request-is-matched-anew [retract resume start] releases=>=0.5.21
    reverts the fix of PR 29471: a resumed request is matched again and takes no lock
    @@ decode SchedulerDisaggregationDecodeMixin._get_new_prebuilt_batch
    - tree_cache = None
    + tree_cache = self.tree_cache if req.retracted_stain else None
failed-transfer-keeps-its-slots [abort] releases=>=0.5.22
    a request whose transfer failed is dropped, and its slots are never freed
    @@ decode DecodeTransferQueue._release_request
    - release_kv_cache(decode_req.req, self.tree_cache, checkpoint=False)
arrival-is-handed-over-twice [transfer] releases=>=0.5.12
    a request whose KV has arrived stays in the transfer queue
    @@ decode DecodeTransferQueue.pop_transferred
      transferred_reqs.append(decode_req.req)
    + indices_to_remove.discard(i)
arrival-keeps-its-buffer [transfer] releases=>=0.5.12
    the buffer of a request's first token is never reused
    @@ decode DecodeTransferQueue.pop_transferred
    - self.req_to_metadata_buffer_idx_allocator.free(idx)
lock-released-twice [start] releases=>=0.5.23
    the SWA locks of a prefix that is shorter than its tail's start are released again with the request
    @@ tree UnifiedRadixCache.release_swa
    - lock.swa_released = True
prefix-reaches-into-the-tail [start] releases=>=0.5.22
    the cached prefix reaches to the last token but one, and the tail starts before that
    @@ decode DecodePreallocQueue._match_prefix_and_lock
    - fill_len - self._swa_tail_len(fill_len)
    + fill_len - 1
""",
    _MODULES,
)

SGLANG_COPIES = mutants(
    _COPY,
    """
stops-early releases=>=0.5.12
    the copy of a retracted request leaves out its last token
    @@ request Req.offload_kv_cache
    - self.seqlen - 1
    + self.seqlen - 2
    @@ request Req.load_kv_cache
    - self.seqlen - 1
    + self.seqlen - 2
inverts-mask releases=>=0.5.12
    the mask of the copy marks the tokens that had no SWA slot
    @@ pool SWAKVPool.get_cpu_copy
    - swa_mask.cpu()
    + ~swa_mask.cpu()
loads-no-swa releases=>=0.5.12
    a resumed request has its full rows back and no SWA rows
    @@ pool SWAKVPool.load_cpu_copy
    - self.swa_kv_pool.load_cpu_copy(swa_kv_cpu, swa_indices)
filters-from-front releases=>=0.5.19
    the load takes as many rows as there are slots from the front of the copy, not the rows of these tokens
    @@ pool SWAKVPool._filter_swa_cpu_copy
    - torch.cat([chunk[t] for chunk in layer_chunks], dim=0)[row_mask]
    + torch.cat([chunk[t] for chunk in layer_chunks], dim=0)[: int(row_mask.sum())]
loads-rows-backwards releases=>=0.5.12
    SWA rows are loaded in the wrong order
    @@ pool SWAKVPool.load_cpu_copy
    - swa_indices[old_swa_mask][row_mask.to(indices.device)]
    + swa_indices[old_swa_mask][row_mask.to(indices.device)].flip(0)
forgets-mask releases=>=0.5.12
    the load treats the copy as one of all tokens that have an SWA slot now
    @@ pool SWAKVPool.load_cpu_copy
    - kv_cache_cpu.get('swa_mask')
    + None
""",
    _MODULES,
)
