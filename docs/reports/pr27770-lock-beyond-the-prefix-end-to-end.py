"""What a request on an idle decode node takes of the prefix tree, what it locks, and what room is left for the rest."""

from array import array
from types import SimpleNamespace

import sglang.srt.disaggregation.decode as decode
import torch
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator
from sglang.srt.mem_cache.base_prefix_cache import InsertParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
from sglang.srt.mem_cache.radix_cache import RadixKey
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool
from sglang.srt.mem_cache.unified_radix_cache import ComponentType, UnifiedRadixCache

PAGE, WINDOW, SLOTS, PROMPT = 16, 15, 48, 33

SIZES = {"size": SLOTS, "size_swa": SLOTS, "page_size": PAGE, "dtype": torch.float32, "device": "cpu"}
pool = SWAKVPool(head_num=1, head_dim=1, full_attention_layer_ids=[0], swa_attention_layer_ids=[1], **SIZES)
allocator = SWATokenToKVPoolAllocator(kvcache=pool, need_sort=False, **SIZES)
tree = UnifiedRadixCache(
    CacheInitParams(
        disable=False,
        req_to_token_pool=ReqToTokenPool(1, SLOTS, "cpu", False),
        token_to_kv_pool_allocator=allocator,
        page_size=PAGE,
        sliding_window_size=WINDOW,
        tree_components=(ComponentType.FULL, ComponentType.SWA),
    )
)
none, all_of_it = torch.tensor([0]), torch.tensor([SLOTS])
locs = allocator.alloc_extend(none, none, all_of_it, all_of_it, none - 1, SLOTS)
tree.insert(InsertParams(key=RadixKey(array("q", [1] * SLOTS)), value=locs))  # the node is idle: all is the tree's

settings = SimpleNamespace(disaggregation_decode_enable_radix_cache=True)
decode.get_disagg = lambda: settings


class Queue(decode.DecodePreallocQueue):
    def __init__(self, **attributes):
        vars(self).update(attributes)


queue = Queue(
    scheduler=SimpleNamespace(sliding_window_size=WINDOW, enable_decode_hicache=False, server_args=settings),
    tree_cache=tree,
    token_to_kv_pool=pool,
    token_to_kv_pool_allocator=allocator,
)
sampling = SimpleNamespace(custom_params=None, max_new_tokens=1, ignore_eos=True, stop_strs=(), stop_regex_strs=())
request = Req("r", "", array("q", [1] * PROMPT), sampling)
queue._match_prefix_and_lock(request)
prefix = PROMPT - queue._swa_tail_len(PROMPT)
needed = -(-PROMPT // PAGE) * PAGE - prefix
room = allocator.full_available_size() + tree.full_evictable_size()
print(
    f"prefix that is taken: {prefix}; locked: {tree.full_protected_size()}; for the rest: expected {needed}, got {room}"
)
raise SystemExit(room < needed)
