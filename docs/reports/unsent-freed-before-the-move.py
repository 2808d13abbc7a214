"""What a moved token's key is in a full-attention and in a sliding-window layer, freed before the move and after it."""

import torch
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool, SWATokenToKVPoolAllocator

SIZES = {"size": 16, "size_swa": 16, "page_size": 4, "dtype": torch.float32, "device": "cpu"}
SHAPE = {"head_num": 1, "head_dim": 1, "full_attention_layer_ids": [0], "swa_attention_layer_ids": [1]}


def moved(free_first):
    pool = SWAKVPool(**SIZES, **SHAPE, enable_kvcache_transpose=False)
    allocator = SWATokenToKVPoolAllocator(**SIZES, kvcache=pool, need_sort=False)
    start, stop = torch.tensor([0]), torch.tensor([8])
    full = allocator.alloc_extend(start, start, stop, stop, start - 1, 8)  # 2 committed tokens, drafts at 2, 3 and 4
    swa = allocator.translate_loc_from_full_to_swa(full)
    for layer, slots in enumerate((full, swa)):
        pool.get_key_buffer(layer)[slots] = torch.arange(8.0).reshape(8, 1, 1)  # the key of position i is i
    if free_first:
        allocator.free(full[4:])  # 2 and 4 are accepted, the page behind them is given up ...
    pool.move_kv_cache(full[2:4], full[[2, 4]])  # ... and 4 moves to 3
    if not free_first:
        allocator.free(full[4:])
    return [pool.get_key_buffer(layer)[slots[3]].item() for layer, slots in enumerate((full, swa))]


print("freed, then moved, as EagleVerifyInput.verify does it: keys of position 3 (full, SWA):", moved(free_first=True))
print("moved, then freed: keys of position 3 (full, SWA):", moved(free_first=False))
