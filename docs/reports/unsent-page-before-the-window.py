"""From which token on a decode node allocates SWA slots of a prompt, and from which on the sender is to write them."""

from types import CellType, FunctionType, SimpleNamespace

import sglang.srt.disaggregation.decode as decode
import torch

PAGE, WINDOW = 4, 4

settings = SimpleNamespace(disaggregation_decode_enable_radix_cache=True)
decode.get_disagg = lambda: settings
allocator = SimpleNamespace(page_size=PAGE)
allocator.translate_swa_indices_for_transfer = allocator.translate_loc_from_full_to_swa = lambda locs: locs
queue = SimpleNamespace(
    scheduler=SimpleNamespace(sliding_window_size=WINDOW, server_args=settings),
    token_to_kv_pool_allocator=allocator,
    req_to_token_pool=SimpleNamespace(req_to_token=torch.arange(64)[None]),  # token i has loc i
    _uses_swa_tail_prealloc=lambda: True,
)
queue._swa_tail_len = lambda length: decode.DecodePreallocQueue._swa_tail_len(queue, length)
request = SimpleNamespace(req=SimpleNamespace(req_pool_idx=0, kv=SimpleNamespace(req_pool_idx=0)))

consts = decode.DecodePreallocQueue.pop_preallocated.__code__.co_consts
payload = next(it for it in consts if getattr(it, "co_name", "") == "_swa_payload")
for length in range(8, 17):  # of a prompt, of which nothing is cached
    names = {"self": queue, "decode_req": request, "page_size": PAGE, "seq_len": length, "total_prefix_len": 0}
    pages = FunctionType(payload, vars(decode), closure=tuple(CellType(names[it]) for it in payload.co_freevars))()
    allocated, sent = length - queue._swa_tail_len(length), int(pages[0]) * PAGE
    lost = f"   <- {sent - allocated} tokens that nobody writes" if sent > allocated else ""
    print(f"{length:2} tokens: SWA slots from token {allocated} on, sent from token {sent} on{lost}")
