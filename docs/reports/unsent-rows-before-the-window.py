"""Which SWA rows of a prompt a decode node's prefix tree keeps, and which the sender is told to write; page size 1."""

from types import CellType, FunctionType, SimpleNamespace

import sglang.srt.disaggregation.decode as decode
import torch
from sglang.srt.mem_cache.common import free_swa_out_of_window_slots

LENGTH, WINDOW = 8, 3  # a prompt of which nothing is cached

freed = []
rows = SimpleNamespace(req_to_token=torch.arange(LENGTH)[None])  # token i has loc i
allocator = SimpleNamespace(page_size=1)
allocator.translate_swa_indices_for_transfer = allocator.translate_loc_from_full_to_swa = lambda locs: locs
allocator.free_swa = allocator.free_swa_segment = lambda locs, start_pos=0: freed.extend(locs.tolist())
kv = SimpleNamespace(
    req_pool_idx=0,
    holds_kv=True,
    cache_protected_len=0,
    swa_evicted_seqlen=0,
    swa_dead_lo=lambda page_size: 0,
    get_evicted_seqlen=lambda component: 0,
    set_evicted_seqlen=lambda component, length: None,
)
request = SimpleNamespace(kv=kv, req_pool_idx=0, swa_evict_floor=0)
queue = SimpleNamespace(
    scheduler=SimpleNamespace(sliding_window_size=WINDOW),
    token_to_kv_pool=None,
    token_to_kv_pool_allocator=allocator,
    req_to_token_pool=rows,
    _uses_swa_tail_prealloc=lambda: False,  # needs pages of more than one token
)
queue._swa_tail_len = lambda length: decode.DecodePreallocQueue._swa_tail_len(queue, length)

consts = decode.DecodePreallocQueue.pop_preallocated.__code__.co_consts
payload = next(it for it in consts if getattr(it, "co_name", "") == "_swa_payload")
names = {"self": queue, "decode_req": SimpleNamespace(req=request), "page_size": 1}
names |= {"seq_len": LENGTH, "total_prefix_len": 0}
sent = FunctionType(payload, vars(decode), closure=tuple(CellType(names[it]) for it in payload.co_freevars))().tolist()

free_swa_out_of_window_slots(  # as checkpoint_into_tree calls it when the request is started
    request,
    LENGTH - 1,
    sliding_window_size=WINDOW,
    page_size=1,
    req_to_token_pool=rows,
    token_to_kv_pool_allocator=allocator,
)
kept = [row for row in range(LENGTH) if row not in freed]
print(f"SWA rows that the tree keeps: {kept}; that the sender writes: {sent}")
print(f"kept and never written: {sorted(set(kept) - set(sent))}")
