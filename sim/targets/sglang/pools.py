"""The release's KV pools behind integers: ``SWAKVPool`` and ``DeepSeekV4TokenToKVPool``."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import torch

from ....models.config import FULL, SWA, Config
from ..base import Rows
from ..tags import DTYPES, WIDTH, decode, encode, encode_rows

__all__ = ["CHUNK", "DSV4_DTYPE", "Dsv4Pool", "HybridPool"]

CHUNK = 5
"""Rows of a CPU copy that go in one piece; the releases' 8192 would never be reached here."""


class HybridPool:
    """Builds, writes and reads the release's ``SWAKVPool``: separate buffers for full-attention and SWA layers.

    How a layer learns where to write differs by release, and is found out from the parameters of
    ``set_kv_buffer``: up to 0.5.12.post1 the pool translates (or uses what ``set_swa_loc`` left,
    PR 24138); 0.5.13 takes ``swa_loc``; from 0.5.14 both locs come as one ``KVWriteLoc`` (PR 27617).

    Attributes:
        per_forward: the caller translates once a forward.
        precomputed: the pool takes a translation made up front.
    """

    def __init__(self, pool_class: Any, memory_pool: Any) -> None:
        self.pool_class, self._memory_pool = pool_class, memory_pool
        parameters = inspect.signature(pool_class.set_kv_buffer).parameters
        self._bundle = memory_pool.KVWriteLoc if "loc_info" in parameters else None
        self._takes_swa_loc = "swa_loc" in parameters
        self.per_forward = self._bundle is not None or self._takes_swa_loc
        self.precomputed = hasattr(pool_class, "set_swa_loc")

    def another(self) -> HybridPool:
        """An adapter of a pool beside this one."""
        return HybridPool(self.pool_class, self._memory_pool)

    def build(self, config: Config) -> Any:
        """A new pool of this shape."""
        layers: dict[str, list[int]] = {FULL: [], SWA: []}
        for layer, kind in enumerate(config.layers):
            layers[kind].append(layer)
        arguments: dict[str, Any] = {
            "size": config.full_size,
            "size_swa": config.swa_size,
            "page_size": config.page_size,
            "dtype": DTYPES[config.dtype],
            "head_num": 1,
            "head_dim": WIDTH,
            "swa_attention_layer_ids": layers[SWA],
            "full_attention_layer_ids": layers[FULL],
            "device": "cpu",
        }
        if "enable_kvcache_transpose" in inspect.signature(self.pool_class.__init__).parameters:
            arguments["enable_kvcache_transpose"] = False
        self.kv = self.pool_class(**arguments)
        for part in (self.kv.full_kv_pool, self.kv.swa_kv_pool):
            part.cpu_offloading_chunk_size = CHUNK
        self._layers = [SimpleNamespace(layer_id=layer) for layer in range(len(config.layers))]
        self._swa = [kind == SWA for kind in config.layers]
        self._dtype = arguments["dtype"]
        return self.kv

    def begin(self, loc: torch.Tensor, allocator: Any, precomputed: bool) -> None:
        """A forward over these full locs starts; translate now where the release does."""
        self._loc = loc
        if self.per_forward:
            self._swa_loc = allocator.translate_loc_from_full_to_swa(loc)
            if self._bundle is not None:
                self._loc = self._bundle(loc, self._swa_loc)
        elif precomputed:
            self.kv.set_swa_loc(allocator.translate_loc_from_full_to_swa(loc))

    def write(self, layer: int, tags: list[int]) -> None:
        """Write one tag a token."""
        keys, values = encode(tags, self._dtype)
        if self._takes_swa_loc:
            self.kv.set_kv_buffer(self._layers[layer], self._loc, keys, values, swa_loc=self._swa_loc)
        else:
            self.kv.set_kv_buffer(self._layers[layer], self._loc, keys, values)

    def receive(self, layer: int, slots: torch.Tensor, tags: list[int]) -> None:
        """Write one tag to each of these slots of the layer's own pool from outside, as a network card does."""
        index, swa = self.kv.layers_mapping[layer]
        pool = self.kv.swa_kv_pool if swa else self.kv.full_kv_pool
        pool.k_buffer[index][slots], pool.v_buffer[index][slots] = encode(tags, self._dtype)

    def read(self, layer: int, locs: torch.Tensor, allocator: Any) -> Rows:
        """Read rows the way an attention backend does: buffers of the layer, translated indices in an SWA layer."""
        if self._swa[layer]:
            locs = allocator.translate_loc_from_full_to_swa(locs)
        keys, values = self.kv.get_kv_buffer(layer)
        return decode(keys[locs], values[locs])

    def contents(self, layer: int) -> Rows:
        """Every slot of one layer, looked at without the pool's accessors."""
        index, swa = self.kv.layers_mapping[layer]
        pool = self.kv.swa_kv_pool if swa else self.kv.full_kv_pool
        return decode(pool.k_buffer[index], pool.v_buffer[index])

    def cache_hits(self) -> int:
        """This pool has no cache a hit could be seen in."""
        return 0


DSV4_DTYPE = "float8_e4m3fn"
"""The only dtype the pool takes."""

_NOPE, _ROPE, _INDEXER = 448, 64, 128  # dimensions the pool asserts
_WORDS = (_NOPE + 2 * _ROPE) // 8  # 64-bit words from one token of a page to the next


class Dsv4Pool:
    """Builds, writes and reads the release's ``DeepSeekV4TokenToKVPool``: the raw KV of every layer is in the SWA pool.

    With ``SGLANG_OPT_CACHE_SWA_TRANSLATION`` on, it keeps the translation of a forward's first layer in ``cached_loc``
    and serves it to the others (PR 25889; gone in 0.5.13).

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
