"""A row of req_to_token at page size 1 (EAGLE): how many positions a step near the context length writes beyond it."""

from unittest.mock import MagicMock, patch

from sglang.srt.mem_cache import allocation_sizing as sizing

CONTEXT, COMMITTED = 64, 57  # the longest prompt that a server with this context length takes

spec = MagicMock(speculative_algorithm="EAGLE", speculative_num_steps=5, speculative_eagle_topk=4)
answers = {
    "get_spec": lambda: spec,
    "get_schedule": lambda: MagicMock(page_size=1),
    "get_parallel": lambda: MagicMock(attn_dcp_size=1),
    "max_speculative_num_draft_tokens": lambda: 8,
}
with patch.multiple(sizing, create=True, **answers):
    row = CONTEXT + sizing.get_req_to_token_extra_context_len()  # KVCacheConfigurator._build_req_to_token_pool
    given = COMMITTED + sizing.get_alloc_reserve_per_decode()  # eagle_prepare_for_decode
beyond = max(0, given - row)
print(f"positions of a row: {row}; positions beyond it that a step writes: expected 0, got {beyond}")
raise SystemExit(beyond > 0)
