"""The hybrid pool, SGLang's ``SWAKVPool``: separate buffers for full-attention and sliding-window layers."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import torch

from ....models.config import FULL, SWA, Config
from ..base import Rows
from ..tags import DTYPES, WIDTH, decode, encode

__all__ = ["CHUNK", "HybridPool"]

CHUNK = 5
"""Rows of a CPU copy that go in one piece; the releases' 8192 would never be reached here."""


class HybridPool:
    """Builds, writes and reads the release's ``SWAKVPool``.

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
