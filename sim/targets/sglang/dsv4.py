"""The DeepSeek-V4 pool, ``DeepSeekV4TokenToKVPool``: the raw KV of every layer lives in the SWA pool.

With ``SGLANG_OPT_CACHE_SWA_TRANSLATION`` on, the pool keeps the translation of a forward's first
layer in ``cached_loc`` and serves it to the others (PR 25889; gone in 0.5.13).
"""

from __future__ import annotations

from typing import Any

import torch

from ....models.config import Config
from ..base import Rows
from ..tags import encode_rows

__all__ = ["DTYPE", "Dsv4Pool"]

DTYPE = "float8_e4m3fn"
"""The only dtype the pool takes."""

_NOPE, _ROPE, _INDEXER = 448, 64, 128  # dimensions the pool asserts
_WORDS = (_NOPE + 2 * _ROPE) // 8  # 64-bit words from one token of a page to the next


class Dsv4Pool:
    """Builds, writes and reads the release's ``DeepSeekV4TokenToKVPool``.

    Every compression ratio is 0: layers with compressed KV hold their raw KV in the same SWA pool,
    and the compressed pools have no mapping.

    Attributes:
        per_forward: False; the pool translates.
        precomputed: False; its ``set_swa_loc`` does nothing.
    """

    per_forward = False
    precomputed = False

    def __init__(self, pool_class: Any) -> None:
        self.pool_class = pool_class

    def build(self, config: Config) -> Any:
        """A new pool of this shape."""
        self.kv = self.pool_class(
            max_num_reqs=1,
            swa_size=config.swa_size,
            c4_size=0,
            c128_size=0,
            c4_state_pool_size=0,
            c128_state_pool_size=0,
            page_size=config.page_size,
            swa_page_size=config.page_size,
            dtype=torch.float8_e4m3fn,
            state_dtype=torch.float32,
            qk_nope_head_dim=_NOPE,
            qk_rope_head_dim=_ROPE,
            indexer_head_dim=_INDEXER,
            layer_num=len(config.layers),
            device="cpu",
            enable_memory_saver=False,
            compression_ratios=[0] * len(config.layers),
        )
        self._page_size = config.page_size
        self._slots = config.swa_size + config.page_size
        self._hits = 0
        return self.kv

    def begin(self, loc: torch.Tensor, allocator: Any, precomputed: bool) -> None:
        """Start a forward over these full locs; the pool learns of it at the first write."""
        self._loc = loc

    def write(self, layer: int, tags: list[int]) -> None:
        """Write one tag a token."""
        cached = self.kv.cached_loc
        self.kv.set_swa_key_buffer_radix_fused(layer, self._loc, encode_rows(tags, torch.bfloat16)[:, 0])
        # A translation makes a new tensor, so the same object was served from the cache.
        self._hits += cached is not None and self.kv.cached_loc is cached

    def read(self, layer: int, locs: torch.Tensor, allocator: Any) -> Rows:
        """Read rows the way the attention backend does: translated indices into the layer's SWA buffer."""
        swa = allocator.translate_loc_from_full_to_swa(locs)
        words = self.kv.get_swa_key_buffer_radix(layer).view(torch.int64)
        page_size = self._page_size
        return Rows(words[swa // page_size, swa % page_size * _WORDS].tolist(), None)

    def contents(self, layer: int) -> Rows:
        """Every slot of one layer, looked at without the pool's accessors."""
        pages = self.kv.swa_kv_pool.kv_buffer[layer].view(torch.int64)
        tags = pages[:, : self._page_size * _WORDS : _WORDS].reshape(-1)[: self._slots]
        return Rows(tags.tolist(), None)

    def cache_hits(self) -> int:
        """Writes that were served ``cached_loc`` since `build`."""
        return self._hits
