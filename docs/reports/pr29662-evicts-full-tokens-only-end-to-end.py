"""An idle decode node at page size 1: what the budget says, and what the allocation does."""

from array import array
from types import SimpleNamespace

import sglang.srt.disaggregation.decode as decode
import torch
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator
from sglang.srt.mem_cache.base_prefix_cache import InsertParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.radix_cache import RadixKey
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool
from sglang.srt.mem_cache.unified_radix_cache import ComponentType, UnifiedRadixCache

FULL, SWA, PROMPT = 4, 3, 2

SIZES = {"size": FULL, "size_swa": SWA, "page_size": 1, "dtype": torch.float32, "device": "cpu"}
pool = SWAKVPool(head_num=1, head_dim=1, full_attention_layer_ids=[0], swa_attention_layer_ids=[1], **SIZES)
allocator = SWATokenToKVPoolAllocator(kvcache=pool, need_sort=False, **SIZES)
rows = decode.DecodeReqToTokenPool(
    size=1, max_context_len=FULL, device="cpu", enable_memory_saver=False, pre_alloc_size=1
)
tree = UnifiedRadixCache(
    CacheInitParams(
        disable=False,
        req_to_token_pool=rows,
        token_to_kv_pool_allocator=allocator,
        page_size=1,
        sliding_window_size=8,
        tree_components=(ComponentType.FULL, ComponentType.SWA),
    )
)
tree.insert(
    InsertParams(key=RadixKey(array("q", [2] * 2)), value=allocator.alloc(2))
)  # an idle node, two tokens cached

settings = SimpleNamespace(disaggregation_decode_enable_radix_cache=True)
decode.get_disagg = lambda: settings
scheduler = SimpleNamespace(
    enable_hisparse=False,
    last_batch=None,
    running_batch=SimpleNamespace(reqs=[]),
    server_args=settings,
    sliding_window_size=8,
    tp_worker=SimpleNamespace(is_hybrid_swa=True),
    waiting_queue=[],
)


class Queue(decode.DecodePreallocQueue):
    def __init__(self, **attributes):
        vars(self).update(attributes)


queue = Queue(
    num_reserved_decode_tokens=1,
    req_to_token_pool=rows,
    retracted_queue=[],
    scheduler=scheduler,
    token_to_kv_pool=pool,
    token_to_kv_pool_allocator=allocator,
    transfer_queue=SimpleNamespace(queue=[]),
    tree_cache=tree,
)
sampling = SimpleNamespace(custom_params=None, max_new_tokens=1, ignore_eos=True, stop_strs=(), stop_regex_strs=())
request = Req("r", "", array("q", [1] * PROMPT), sampling)
free = f"free: {allocator.full_available_size()} full, {allocator.swa_available_size()} SWA"
kept = f"the tree can evict {tree.full_evictable_size()} and {tree.swa_evictable_size()}"
print(
    f"{free}; {kept}; budget: {queue._allocatable_token_budgets()}; the prompt has {PROMPT} tokens, and 1 is reserved"
)
got = "its slots"
try:
    queue._pre_alloc(request)
except AssertionError as error:
    got = f"AssertionError: {error}"
print(f"expected its slots, got {got}")
raise SystemExit(got != "its slots")
