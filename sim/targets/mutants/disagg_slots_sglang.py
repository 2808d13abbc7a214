"""Mutants of what SGLang's decode nodes allocate, tell the sender, copy and give back."""

from __future__ import annotations

from .edits import after, drop, sglang_node, swap
from .transform import Edit, Mutant

__all__ = ["SGLANG_COPIES", "SGLANG_SLOTS"]

_DECODE = "sglang.srt.disaggregation.decode"
_REQUEST = "sglang.srt.managers.schedule_batch"
_ALLOCATOR = "sglang.srt.mem_cache.allocator.swa"
_POOL = "sglang.srt.mem_cache.swa_memory_pool"
_QUEUE = "DecodePreallocQueue"
_TRANSFER = "DecodeTransferQueue"


def _copy(name: str, releases: str, story: str, *edits: Edit) -> Mutant:
    return sglang_node(f"copy-{name}", releases, story, *edits, events=("retract", "resume"))


def _queue(method: str, old: str, new: str) -> Edit:
    return swap(_DECODE, f"{_QUEUE}.{method}", old, new)


SGLANG_SLOTS: tuple[Mutant, ...] = (
    sglang_node(
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
    sglang_node(
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
    sglang_node(
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
    sglang_node(
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
    sglang_node(
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
    sglang_node(
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
    sglang_node(
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
    sglang_node(
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
    sglang_node(
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
    sglang_node(
        "arrival-keeps-its-buffer",
        ">=0.5.12",
        "the buffer in which a request's first token came is never used again",
        drop(_DECODE, f"{_TRANSFER}.pop_transferred", "self.req_to_metadata_buffer_idx_allocator.free(idx)"),
        events=("transfer",),
    ),
    sglang_node(
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
