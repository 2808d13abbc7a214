"""Keys of pairs (EAGLE): how many tokens the tree takes of a request that ends, and how many that leaves to it."""

from array import array
from unittest.mock import MagicMock

import torch
from sglang.srt.managers.schedule_batch import FINISH_LENGTH, Req
from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.unified_radix_cache import ComponentType, UnifiedRadixCache

PAGE, WINDOW, TOKENS = 4, 7, 12

translate = {"translate_loc_from_full_to_swa": torch.clone, "translate_swa_indices_for_transfer": torch.clone}
allocator = MagicMock(SWATokenToKVPoolAllocator, device="cpu", swa_req_ring=False, **translate)
rows = MagicMock(req_to_token=torch.arange(TOKENS)[None])  # token i has slot i in both pools
parts = {"sliding_window_size": WINDOW, "tree_components": (ComponentType.FULL, ComponentType.SWA)}
tree = UnifiedRadixCache(CacheInitParams(False, rows, allocator, PAGE, is_eagle=True, **parts))

request = Req("r", "", array("q", [1] * TOKENS), MagicMock())
request.kv.req_pool_idx, request.finished_reason = 0, FINISH_LENGTH(TOKENS)
request.full_untruncated_fill_ids = request.origin_input_ids
tree.evict_sliding_windows(request, TOKENS - 1)  # before the last step, which accepts one token ...
tree.checkpoint_into_tree(request, up_to=TOKENS)  # ... and ends the request
(taken, _), left = tree.total_size(), request.kv.cache_protected_len
print(f"tokens that the tree took: {taken}; that the request does not free: expected {taken}, got {left}")
raise SystemExit(left != taken)
