"""Mutants of what SGLang's own decode queues count: lengths, charges, budgets, and who is let in."""

from __future__ import annotations

from .edits import before, drop, sglang_node, swap
from .transform import Edit, Mutant

__all__ = ["SGLANG_BUDGETS"]

_DECODE = "sglang.srt.disaggregation.decode"
_QUEUE = "DecodePreallocQueue"


def _queue(method: str, old: str, new: str) -> Edit:
    return swap(_DECODE, f"{_QUEUE}.{method}", old, new)


SGLANG_BUDGETS: tuple[Mutant, ...] = (
    sglang_node(
        "tail-starts-a-page-late",
        ">=0.5.12",
        "the tail starts on the page behind the one in which the window does",
        _queue("_swa_tail_len", "window_start // page_size * page_size", "-(-window_start // page_size) * page_size"),
    ),
    sglang_node(
        "length-counts-the-newest-token",
        ">=0.5.16",
        "a resumed request gets a slot for its newest token too, which has no KV",
        _queue("_pre_alloc_fill_len", "max(len(req.output_ids) - 1, 0)", "len(req.output_ids)"),
        events=("retract",),
    ),
    sglang_node(
        "tail-charged-in-tokens",
        ">=0.5.18",
        "takes back a half of the fix of PR 33794: a tail is charged in tokens and allocated in pages",
        drop(_DECODE, f"{_QUEUE}._prealloc_required_tokens", "swa_len = ceil_align(swa_len, page_size)"),
    ),
    sglang_node(
        "retraction-frees-whole-prompts",
        ">=0.5.12",
        "retracting a request is thought to give back SWA slots of its whole prompt",
        _queue("_swa_retractable_len", "self._swa_tail_len(len(req.origin_input_ids))", "len(req.origin_input_ids)"),
    ),
    sglang_node(
        "forgets-requests-in-transfer",
        ">=0.5.21",
        "no tokens are reserved for the decode of a request whose KV is on its way",
        _queue("_active_req_count", "sum(not r.host_staged for r in self.transfer_queue.queue)", "0"),
    ),
    sglang_node(
        "locked-tokens-can-be-evicted",
        ">=0.5.19",
        "the full budget counts tokens of the tree that running requests lock",
        _queue(
            "_radix_full_evictable",
            "self.tree_cache.full_evictable_size()",
            "self.tree_cache.full_evictable_size() + self.tree_cache.full_protected_size()",
        ),
    ),
    sglang_node(
        "windows-grow-for-ever",
        ">=0.5.12",
        "the SWA budget keeps back every reserved token, as if no window gave one up",
        _queue(
            "_swa_tail_allocatable_token_budget",
            "min(reserved_tokens, swa_growth_potential)",
            "reserved_tokens",
        ),
    ),
    sglang_node(
        "full-budget-forgets-retracted",
        ">=0.5.12",
        "new requests get the full slots that retracted ones need to come back",
        drop(_DECODE, f"{_QUEUE}._allocatable_token_budgets", "allocatable_tokens -= full_required"),
        events=("retract",),
    ),
    sglang_node(
        "swa-budget-forgets-retracted",
        ">=0.5.12",
        "new requests get the SWA slots that retracted ones need to come back",
        drop(_DECODE, f"{_QUEUE}._swa_tail_allocatable_token_budget", "swa_allocatable_tokens -= swa_required"),
        events=("retract",),
    ),
    sglang_node(
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
    sglang_node(
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
    sglang_node(
        "takes-what-fits-no-node",
        ">=0.5.12",
        "a request whose window needs more than the whole SWA pool waits for ever and keeps all others waiting",
        _queue("_check_if_req_exceed_kv_capacity", "swa_required > swa_capacity", "False"),
    ),
    sglang_node(
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
    sglang_node(
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
    sglang_node(
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
