"""A decode node that has a prompt: the same again, aborted before it is started, and what comes of inserting it."""

from array import array
from unittest.mock import MagicMock

import torch
from sglang.srt.managers.schedule_batch import FINISH_ABORT, Req
from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.common import match_kv_cache
from sglang.srt.mem_cache.unified_radix_cache import ComponentType, UnifiedRadixCache

PAGE, WINDOW, TOKENS, TAIL = 4, 4, 9, 5  # `_swa_tail_len(9)` is 5

translate = {"translate_loc_from_full_to_swa": torch.clone, "translate_swa_indices_for_transfer": torch.clone}
allocator = MagicMock(SWATokenToKVPoolAllocator, device="cpu", swa_req_ring=False, **translate)
rows = MagicMock(req_to_token=torch.arange(2 * TOKENS).view(2, TOKENS))
parts = {"sliding_window_size": WINDOW, "tree_components": (ComponentType.FULL, ComponentType.SWA)}
tree = UnifiedRadixCache(CacheInitParams(False, rows, allocator, PAGE, **parts))

got = "nothing"
for row in (0, 1):
    request = Req("r", "", array("q", [1] * TOKENS), MagicMock())
    match_kv_cache(request, tree, request.origin_input_ids, max_prefix_len=TOKENS - TAIL)
    request.lock, request.kv.req_pool_idx = tree.lock(request.last_node), row
    request.kv.set_evicted_seqlen(ComponentType.SWA, TOKENS - TAIL)  # a tail allocation: none in front of it
    reason = FINISH_ABORT() if row == 1 else None  # the first is started
    request.full_untruncated_fill_ids, request.finished_reason = request.origin_input_ids, reason
    try:
        tree.checkpoint_into_tree(request, up_to=TOKENS)
    except AssertionError as error:
        got = f"AssertionError, {error}"
print(f"inserting it raises: expected nothing, got {got}")
raise SystemExit(got != "nothing")
