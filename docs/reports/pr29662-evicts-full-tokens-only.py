"""A decode node at page size 1 that is short of SWA slots: does a request that its budget admits get its slots?"""

from array import array
from unittest.mock import MagicMock

import sglang.srt.disaggregation.decode as decode
import torch
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator
from sglang.srt.mem_cache.base_swa_memory_pool import BaseSWAKVPool

decode.get_disagg = MagicMock()  # every setting is on; asked for is that of the radix cache
pool = MagicMock(BaseSWAKVPool, swa_req_ring_size=None)
allocator = SWATokenToKVPoolAllocator(4, 3, 1, torch.float32, "cpu", pool, need_sort=False)  # 4 full slots, 3 SWA
cached = allocator.alloc(2)  # two tokens are the tree's, which gives up what it is asked for
tree = MagicMock(**{"full_evictable_size.return_value": 2})
tree.evict_for_alloc = lambda asked: allocator.free_swa(cached[: asked.swa_num_tokens])

queue = object.__new__(decode.DecodePreallocQueue)
queue.scheduler = MagicMock(last_batch=None, enable_hisparse=False, sliding_window_size=8, waiting_queue=[])
queue.scheduler.running_batch.reqs, queue.transfer_queue, queue.retracted_queue = [], MagicMock(queue=[]), []
queue.token_to_kv_pool, queue.token_to_kv_pool_allocator, queue.tree_cache = pool, allocator, tree
queue.req_to_token_pool, queue.num_reserved_decode_tokens = MagicMock(), 1
budget, got = queue._allocatable_token_budgets(), "its slots"
try:
    queue._pre_alloc(Req("r", "", array("q", [1, 1]), MagicMock()))
except AssertionError as error:
    got = str(error).partition(".")[0]
print(f"a prompt of 2 tokens, 1 reserved, a budget of {budget}: expected its slots, got {got}")
raise SystemExit(got != "its slots")
