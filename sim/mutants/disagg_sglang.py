"""Mutants of SGLang's own decode queues: what they count, what they tell the sender, what they give back.

They are shown with the Python tree core, whose locks can be seen: budgets beside a Rust tree are not judged.
"""

from __future__ import annotations

from staleloc.sim.mutants.edits import after, before, drop, swap
from staleloc.sim.mutate import Edit, Mutant

__all__ = ["SGLANG_BUDGETS", "SGLANG_COPIES", "SGLANG_SLOTS"]

_DECODE = "sglang.srt.disaggregation.decode"
_REQUEST = "sglang.srt.managers.schedule_batch"
_ALLOCATOR = "sglang.srt.mem_cache.allocator.swa"
_POOL = "sglang.srt.mem_cache.swa_memory_pool"
_QUEUE = "DecodePreallocQueue"
_TRANSFER = "DecodeTransferQueue"


def _node(name: str, releases: str, story: str, *edits: Edit, events: tuple[str, ...] = ()) -> Mutant:
    return Mutant(
        f"sglang-node-{name}", "sglang", edits, "hybrid", ("native", "python-core"), story,
        ("preallocate", *events), releases, "engine", ("disagg",),
    )  # fmt: skip


def _copy(name: str, releases: str, story: str, *edits: Edit) -> Mutant:
    return _node(f"copy-{name}", releases, story, *edits, events=("retract", "resume"))


def _queue(method: str, old: str, new: str) -> Edit:
    return swap(_DECODE, f"{_QUEUE}.{method}", old, new)


SGLANG_BUDGETS: tuple[Mutant, ...] = (
    _node(
        "tail-starts-a-page-late",
        ">=0.5.12",
        "the tail starts on the page behind the one in which the window does",
        _queue("_swa_tail_len", "window_start // page_size * page_size", "-(-window_start // page_size) * page_size"),
    ),
    _node(
        "length-counts-the-newest-token",
        ">=0.5.16",
        "a resumed request gets a slot for its newest token too, which has no KV",
        _queue("_pre_alloc_fill_len", "max(len(req.output_ids) - 1, 0)", "len(req.output_ids)"),
        events=("retract",),
    ),
    _node(
        "tail-charged-in-tokens",
        ">=0.5.18",
        "takes back a half of the fix of PR 33794: a tail is charged in tokens and allocated in pages",
        drop(_DECODE, f"{_QUEUE}._prealloc_required_tokens", "swa_len = ceil_align(swa_len, page_size)"),
    ),
    _node(
        "retraction-frees-whole-prompts",
        ">=0.5.12",
        "retracting a request is thought to give back SWA slots of its whole prompt",
        _queue("_swa_retractable_len", "self._swa_tail_len(len(req.origin_input_ids))", "len(req.origin_input_ids)"),
    ),
    _node(
        "forgets-requests-in-transfer",
        ">=0.5.21",
        "no tokens are reserved for the decode of a request whose KV is on its way",
        _queue("_active_req_count", "sum(not r.host_staged for r in self.transfer_queue.queue)", "0"),
    ),
    _node(
        "locked-tokens-can-be-evicted",
        ">=0.5.19",
        "the full budget counts tokens of the tree that running requests lock",
        _queue(
            "_radix_full_evictable",
            "self.tree_cache.full_evictable_size()",
            "self.tree_cache.full_evictable_size() + self.tree_cache.full_protected_size()",
        ),
    ),
    _node(
        "windows-grow-for-ever",
        ">=0.5.12",
        "the SWA budget keeps back every reserved token, as if no window gave one up",
        _queue(
            "_swa_tail_allocatable_token_budget",
            "min(reserved_tokens, swa_growth_potential)",
            "reserved_tokens",
        ),
    ),
    _node(
        "full-budget-forgets-retracted",
        ">=0.5.12",
        "new requests get the full slots that retracted ones need to come back",
        drop(_DECODE, f"{_QUEUE}._allocatable_token_budgets", "allocatable_tokens -= full_required"),
        events=("retract",),
    ),
    _node(
        "swa-budget-forgets-retracted",
        ">=0.5.12",
        "new requests get the SWA slots that retracted ones need to come back",
        drop(_DECODE, f"{_QUEUE}._swa_tail_allocatable_token_budget", "swa_allocatable_tokens -= swa_required"),
        events=("retract",),
    ),
    _node(
        "full-budget-forgets-prebuilt",
        ">=0.5.12",
        "the full budget keeps nothing back for a prebuilt batch",
        drop(
            _DECODE,
            f"{_QUEUE}._allocatable_token_budgets",
            "allocatable_tokens -= self.num_reserved_decode_tokens * len(self.scheduler.last_batch.reqs)",
        ),
        events=("start",),
    ),
    _node(
        "swa-budget-forgets-prebuilt",
        ">=0.5.12",
        "the SWA budget keeps nothing back for a prebuilt batch",
        drop(
            _DECODE,
            f"{_QUEUE}._swa_tail_allocatable_token_budget",
            "swa_allocatable_tokens -= min(prebuilt_reserved_tokens, prebuilt_swa_growth)",
        ),
        events=("start",),
    ),
    _node(
        "takes-what-fits-no-node",
        ">=0.5.12",
        "a request whose window needs more than the whole SWA pool waits for ever and keeps all others waiting",
        _queue("_check_if_req_exceed_kv_capacity", "swa_required > swa_capacity", "False"),
    ),
    _node(
        "resume-overtakes",
        ">=0.5.22",
        "a retracted request that does not fit is passed over",
        before(
            _DECODE,
            f"{_QUEUE}.resume_retracted_reqs",
            "full_required, swa_required = self._prealloc_required_tokens(req)",
            "if not self._prealloc_reservation_fits(*self._prealloc_required_tokens(req), "
            "full_allocatable_tokens=full_allocatable_tokens, swa_allocatable_tokens=swa_allocatable_tokens): continue",
        ),
        events=("retract", "resume"),
    ),
    _node(
        "resume-counts-itself",
        ">=0.5.12",
        "a retracted request's own need is kept back from the budget it asks",
        _queue(
            "resume_retracted_reqs",
            "self._swa_aware_allocatable_token_budgets(count_retracted=False)",
            "self._swa_aware_allocatable_token_budgets(count_retracted=True)",
        ),
        events=("retract", "resume"),
    ),
    _node(
        "admission-forgets-what-it-gave",
        ">=0.5.19",
        "the full budget is that from before the last request of the round",
        before(
            _DECODE,
            f"{_QUEUE}.pop_preallocated",
            "decode_req.req.kv.cache_protected_len = total_prefix_len",
            "full_allocatable_tokens += required_alloc_tokens",
        ),
    ),
)

SGLANG_SLOTS: tuple[Mutant, ...] = (
    _node(
        "tail-says-nothing",
        ">=0.5.21",
        "takes back the fix of PR 28085: the evicted length of a tail preallocation stays at 0",
        drop(
            _DECODE,
            "alloc_for_decode_prealloc",
            "req.kv.set_evicted_seqlen(ComponentType.SWA, swa_evicted_seqlen)",
        ),
        events=("evict_window",),
    ),
    _node(
        "tail-mapped-to-the-front",
        ">=0.5.13",
        "the SWA slots of a tail are mapped to the front of the request",
        swap(
            _ALLOCATOR,
            "SWATokenToKVPoolAllocator.alloc_extend_swa_tail",
            "alloc_full_indices[-swa_tail_len:]",
            "alloc_full_indices[:swa_tail_len]",
        ),
    ),
    _node(
        "sender-gets-full-pages",
        ">=0.5.20",
        "the sender is told full pages where it asks for SWA pages",
        _queue(
            "pop_preallocated",
            "self.token_to_kv_pool_allocator.translate_swa_indices_for_transfer(window_kv_indices_full)",
            "window_kv_indices_full",
        ),
        events=("transfer",),
    ),
    _node(
        "sender-starts-inside-a-page",
        ">=0.5.12",
        "the first SWA page that the sender is told is counted from inside it",
        _queue(
            "pop_preallocated",
            "page_align_floor(window_start, page_size)",
            "min(window_start + page_size - 1, seq_len - 1)",
        ),
        events=("transfer",),
    ),
    _node(
        "prefix-out-of-the-row",
        ">=0.5.19",
        "what the tree has of a prompt is not entered into the request's row",
        drop(
            _DECODE,
            f"{_QUEUE}._pre_alloc",
            "self.req_to_token_pool.write((req.kv.req_pool_idx, slice(0, prefix_len)), prefix_indices)",
        ),
        events=("start",),
    ),
    _node(
        "resume-evicts-no-swa",
        ">=0.5.21",
        "takes back the fix of PR 40309: nothing is evicted from the tree for a tail that resumes",
        _queue(
            "_pre_alloc",
            "get_disagg().disaggregation_decode_enable_radix_cache and swa_pages_charged",
            "False",
        ),
        events=("retract", "resume"),
    ),
    _node(
        "resumed-request-is-matched-anew",
        ">=0.5.21",
        "takes back the fix of PR 29471: a resumed request is matched anew and takes no lock",
        swap(
            _DECODE,
            "SchedulerDisaggregationDecodeMixin._get_new_prebuilt_batch",
            "tree_cache = None",
            "tree_cache = self.tree_cache if req.retracted_stain else None",
        ),
        events=("retract", "resume", "start"),
    ),
    _node(
        "failed-transfer-keeps-its-slots",
        ">=0.5.22",
        "a request whose transfer failed is gone and its slots are never free again",
        drop(
            _DECODE,
            f"{_TRANSFER}._release_request",
            "release_kv_cache(decode_req.req, self.tree_cache, checkpoint=False)",
        ),
        events=("abort",),
    ),
    _node(
        "arrival-is-handed-over-twice",
        ">=0.5.12",
        "a request whose KV is there stays in the transfer queue",
        after(
            _DECODE,
            f"{_TRANSFER}.pop_transferred",
            "transferred_reqs.append(decode_req.req)",
            "indices_to_remove.discard(i)",
        ),
        events=("transfer",),
    ),
    _node(
        "arrival-keeps-its-buffer",
        ">=0.5.12",
        "the buffer in which a request's first token came is never used again",
        drop(_DECODE, f"{_TRANSFER}.pop_transferred", "self.req_to_metadata_buffer_idx_allocator.free(idx)"),
        events=("transfer",),
    ),
    _node(
        "prefix-reaches-into-the-tail",
        ">=0.5.22",
        "what the tree has of a prompt is taken up to the last token but one, and the tail starts before that",
        _queue("_match_prefix_and_lock", "fill_len - self._swa_tail_len(fill_len)", "fill_len - 1"),
        events=("start",),
    ),
)

SGLANG_COPIES: tuple[Mutant, ...] = (
    _copy(
        "stops-early",
        ">=0.5.12",
        "the copy of a retracted request leaves out its last token",
        swap(_REQUEST, "Req.offload_kv_cache", "self.seqlen - 1", "self.seqlen - 2"),
        swap(_REQUEST, "Req.load_kv_cache", "self.seqlen - 1", "self.seqlen - 2"),
    ),
    _copy(
        "inverts-mask",
        ">=0.5.12",
        "the copy says that it holds the SWA rows of the tokens that had no SWA slot",
        swap(_POOL, "SWAKVPool.get_cpu_copy", "swa_mask.cpu()", "~swa_mask.cpu()"),
    ),
    _copy(
        "loads-no-swa",
        ">=0.5.12",
        "a resumed request has its full rows back and no SWA rows",
        drop(_POOL, "SWAKVPool.load_cpu_copy", "self.swa_kv_pool.load_cpu_copy(swa_kv_cpu, swa_indices)"),
    ),
    _copy(
        "filters-from-front",
        ">=0.5.19",
        "the load takes as many rows of the copy as there are slots, from its front and not those of these tokens",
        swap(
            _POOL,
            "SWAKVPool._filter_swa_cpu_copy",
            "torch.cat([chunk[t] for chunk in layer_chunks], dim=0)[row_mask]",
            "torch.cat([chunk[t] for chunk in layer_chunks], dim=0)[: int(row_mask.sum())]",
        ),
    ),
    _copy(
        "loads-rows-backwards",
        ">=0.5.12",
        "SWA rows come back in the wrong order",
        swap(
            _POOL,
            "SWAKVPool.load_cpu_copy",
            "swa_indices[old_swa_mask][row_mask.to(indices.device)]",
            "swa_indices[old_swa_mask][row_mask.to(indices.device)].flip(0)",
        ),
    ),
    _copy(
        "forgets-mask",
        ">=0.5.12",
        "the load takes the copy for one of all tokens that have an SWA slot now",
        swap(_POOL, "SWAKVPool.load_cpu_copy", "kv_cache_cpu.get('swa_mask')", "None"),
    ),
)
