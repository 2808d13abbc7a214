"""A prompt on a decode node at page size 1: which SWA rows its prefix tree keeps, and which the sender writes."""

from types import CellType, FunctionType
from unittest.mock import MagicMock

import sglang.srt.disaggregation.decode as decode
import torch
from sglang.srt.managers.schedule_batch import ReqKvInfo
from sglang.srt.mem_cache.common import free_swa_out_of_window_slots

LENGTH, WINDOW = 8, 3

translate = {"translate_loc_from_full_to_swa": torch.clone, "translate_swa_indices_for_transfer": torch.clone}
allocator = MagicMock(page_size=1, **translate)
rows = MagicMock(req_to_token=torch.arange(LENGTH)[None])  # token i has slot i in both pools
request = MagicMock(kv=ReqKvInfo(req_pool_idx=0))
queue = object.__new__(decode.DecodePreallocQueue)
queue.scheduler, queue.token_to_kv_pool = MagicMock(sliding_window_size=WINDOW), None
queue.token_to_kv_pool_allocator, queue.req_to_token_pool = allocator, rows

# _swa_payload is a function inside pop_preallocated; these are the names that it finds there
names = {"self": queue, "decode_req": MagicMock(req=request), "page_size": 1, "seq_len": LENGTH, "total_prefix_len": 0}
inside = decode.DecodePreallocQueue.pop_preallocated.__code__.co_consts
code = next(it for it in inside if getattr(it, "co_name", "") == "_swa_payload")
sent = FunctionType(code, vars(decode), closure=tuple(CellType(names[it]) for it in code.co_freevars))().tolist()

pools = {"req_to_token_pool": rows, "token_to_kv_pool_allocator": allocator}
free_swa_out_of_window_slots(request, LENGTH - 1, sliding_window_size=WINDOW, page_size=1, **pools)
(freed,) = allocator.method_calls  # what checkpoint_into_tree gives up when the request is started
lost = sorted(set(range(LENGTH)) - set(freed.args[0].tolist()) - set(sent))
print(f"SWA rows that the tree keeps and that are never written: expected [], got {lost}")
raise SystemExit(lost != [])
