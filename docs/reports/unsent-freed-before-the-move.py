"""An accepted token's key in a full-attention and in a sliding-window layer, after EAGLE V1 moved it to the front."""

import torch
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool, SWATokenToKVPoolAllocator

SIZES = {"size": 16, "size_swa": 16, "page_size": 4, "dtype": torch.float32, "device": "cpu"}
SHAPE = {"head_num": 1, "head_dim": 1, "full_attention_layer_ids": [0], "swa_attention_layer_ids": [1]}

pool = SWAKVPool(**SIZES, **SHAPE, enable_kvcache_transpose=False)
allocator = SWATokenToKVPoolAllocator(**SIZES, kvcache=pool, need_sort=False)
start, stop = torch.tensor([0]), torch.tensor([8])
full = allocator.alloc_extend(start, start, stop, stop, start - 1, 8)  # 2 committed tokens, drafts at 2, 3 and 4
swa = allocator.translate_loc_from_full_to_swa(full)
for layer, slots in enumerate((full, swa)):
    pool.get_key_buffer(layer)[slots] = torch.arange(8.0).reshape(8, 1, 1)  # the key of position i is i

# 2 and 4 are accepted; EagleVerifyInput.verify gives up the page behind the tokens that stay, and then moves 4 to 3
allocator.free(full[4:])
pool.move_kv_cache(full[2:4], full[[2, 4]])
keys = [pool.get_key_buffer(layer)[slots[3]].item() for layer, slots in enumerate((full, swa))]
print(f"keys at position 3, full layer and SWA layer: expected [4.0, 4.0], got {keys}")
raise SystemExit(keys != [4.0, 4.0])
