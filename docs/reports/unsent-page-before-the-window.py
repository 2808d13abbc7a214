"""A prompt on a decode node: the first token whose SWA slot is allocated, and the first that the sender writes."""

from types import CellType, FunctionType
from unittest.mock import MagicMock

import sglang.srt.disaggregation.decode as decode
import torch
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool

LENGTH, PAGE, WINDOW = 8, 4, 4

decode.get_disagg = MagicMock()  # every setting is on; asked for is that of the radix cache
queue = object.__new__(decode.DecodePreallocQueue)
queue.scheduler, queue.token_to_kv_pool = MagicMock(sliding_window_size=WINDOW), MagicMock(SWAKVPool)
translate = {"translate_loc_from_full_to_swa": torch.clone, "translate_swa_indices_for_transfer": torch.clone}
queue.token_to_kv_pool_allocator = MagicMock(page_size=PAGE, **translate)
queue.req_to_token_pool = MagicMock(req_to_token=torch.arange(LENGTH)[None])  # token i has slot i in both pools

# _swa_payload is a function inside pop_preallocated; these are the names that it finds there
request = MagicMock(**{"req.kv.req_pool_idx": 0})
names = {"self": queue, "decode_req": request, "page_size": PAGE, "seq_len": LENGTH, "total_prefix_len": 0}
inside = decode.DecodePreallocQueue.pop_preallocated.__code__.co_consts
code = next(it for it in inside if getattr(it, "co_name", "") == "_swa_payload")
pages = FunctionType(code, vars(decode), closure=tuple(CellType(names[it]) for it in code.co_freevars))()

allocated, sent = LENGTH - queue._swa_tail_len(LENGTH), int(pages[0]) * PAGE
print(f"SWA slots are allocated from token {allocated} on; the sender writes from: expected {allocated}, got {sent}")
raise SystemExit(sent != allocated)
