"""How many tokens of the prefix tree a request on a decode node takes, and how many it locks."""

from array import array
from unittest.mock import MagicMock

import sglang.srt.disaggregation.decode as decode
import torch
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator
from sglang.srt.mem_cache.base_prefix_cache import InsertParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.radix_cache import RadixKey
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool
from sglang.srt.mem_cache.unified_radix_cache import ComponentType, UnifiedRadixCache

PAGE, WINDOW, CACHED, PROMPT = 16, 15, 48, 33

decode.get_disagg = MagicMock()  # every setting is on; asked for is that of the radix cache
translate = {"translate_loc_from_full_to_swa": torch.clone, "translate_swa_indices_for_transfer": torch.clone}
allocator = MagicMock(SWATokenToKVPoolAllocator, device="cpu", page_size=PAGE, swa_req_ring=False, **translate)
parts = {"sliding_window_size": WINDOW, "tree_components": (ComponentType.FULL, ComponentType.SWA)}
tree = UnifiedRadixCache(CacheInitParams(False, MagicMock(), allocator, PAGE, **parts))
tree.insert(InsertParams(key=RadixKey(array("q", [1] * CACHED)), value=torch.arange(PAGE, PAGE + CACHED)))

queue = object.__new__(decode.DecodePreallocQueue)
queue.scheduler, queue.tree_cache = MagicMock(sliding_window_size=WINDOW, enable_decode_hicache=False), tree
queue.token_to_kv_pool, queue.token_to_kv_pool_allocator = MagicMock(SWAKVPool), allocator
queue._match_prefix_and_lock(Req("r", "", array("q", [1] * PROMPT), MagicMock()))
taken, locked = PROMPT - queue._swa_tail_len(PROMPT), tree.full_protected_size()
print(f"tokens of the tree that are taken: {taken}; that are locked: expected {taken}, got {locked}")
raise SystemExit(locked != taken)
