"""The KV buffers: where rows are written and read, and where a full loc becomes an SWA loc."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ....models.config import FULL, SWA, Config
from ..tags import DTYPES, WIDTH
from .cpu_copy import CpuCopy, copy_in, copy_out, keep_rows
from .policies import POLICIES, Policy

__all__ = ["DeepSeekV4Pool", "HybridPool", "KvPool"]


class KvPool:
    """Buffers of full and SWA layers, and the policy that translates for the latter.

    `buffers_of` holds, for each kind of layer, one tensor per part of a row (keys, values) of shape
    ``[layers of the kind, size + page_size, 1, head_dim]``. `written` holds, for each layer, the locs that its
    last write went to, as the very tensor that the write was given.

    Args:
        config: the shape.
        policy: another pool's, if this one's tokens lie where that one's do.
    """

    parts: ClassVar[int]

    def __init__(self, config: Config, policy: Policy | None = None) -> None:
        self.layers = config.layers
        sizes = {FULL: config.full_size, SWA: config.swa_size}
        self.buffers_of = {
            kind: tuple(
                torch.zeros((config.layers.count(kind), size + config.page_size, 1, WIDTH), dtype=DTYPES[config.dtype])
                for _ in range(self.parts)
            )
            for kind, size in sizes.items()
        }
        rows_of: dict[str, list[tuple[Tensor, ...]]] = {
            kind: list(zip(*(part.unbind(0) for part in parts), strict=True)) for kind, parts in self.buffers_of.items()
        }
        self._layer_buffers = [
            rows_of[kind][config.layers[:layer_id].count(kind)] for layer_id, kind in enumerate(config.layers)
        ]
        self.full_to_swa_index_mapping = torch.empty(0, dtype=torch.int64)
        self.policy = policy or POLICIES[config.policy](self.gather, config.layers.index(SWA))
        self.written: dict[int, Tensor] = {}

    def register_mapping(self, mapping: Tensor) -> None:
        """Translate with this table from now on: int64, ``[full_size + page_size + 1]``, its last element -1."""
        self.full_to_swa_index_mapping = mapping

    def gather(self, locs: Tensor) -> Tensor:
        """SWA locs straight from the table: 0 where there is none, -1 for -1. Never from a cache."""
        return self.full_to_swa_index_mapping[locs]

    def layer_buffers(self, layer_id: int) -> tuple[Tensor, ...]:
        """The buffers of one layer, keys first, each ``[slots, 1, head_dim]``."""
        return self._layer_buffers[layer_id]

    def set_kv_buffer(self, layer_id: int, locs: Tensor, *rows: Tensor) -> None:
        """Write the running batch at one layer.

        Args:
            layer_id: the layer. An SWA layer writes at the translated locs; tokens without an SWA slot
                go to the dummy slot.
            locs: the batch's own tensor of full locs.
            rows: one tensor ``[len(locs), 1, head_dim]`` per part.
        """
        if self.layers[layer_id] == SWA:
            locs = self.policy.translate(locs, layer_id)
        self.written[layer_id] = locs
        for buffer, part in zip(self._layer_buffers[layer_id], rows, strict=True):
            buffer.index_copy_(0, locs, part)

    def get_kv_buffer(self, layer_id: int, locs: Tensor) -> tuple[Tensor, ...]:
        """What attention reads at these full locs, a tensor ``[len(locs), 1, head_dim]`` per part.

        Attention's own locs are translated with its metadata, not by the cache of the write path.
        """
        if self.layers[layer_id] == SWA:
            locs = self.gather(locs)
        return tuple(buffer.index_select(0, locs) for buffer in self._layer_buffers[layer_id])


class HybridPool(KvPool):
    """Keys and values of full and SWA layers (SGLang's ``SWAKVPool``)."""

    parts = 2

    def get_cpu_copy(self, locs: Tensor) -> CpuCopy:
        """A copy of these tokens' rows on the CPU; SWA rows of the tokens that have an SWA slot."""
        swa_locs = self.gather(locs)
        held = swa_locs > 0
        return CpuCopy(
            full=copy_out(self.buffers_of[FULL], locs),
            swa=copy_out(self.buffers_of[SWA], swa_locs[held]),
            swa_mask=held,
        )

    def load_cpu_copy(self, copy: CpuCopy, locs: Tensor) -> None:
        """Write a copy to `locs`, as many as were copied.

        An SWA row goes back where the copy holds it and the token has an SWA slot now. Other rows
        of the pool keep what they have.
        """
        copy_in(self.buffers_of[FULL], locs, copy.full)
        swa_locs = self.gather(locs)
        mapped = swa_locs > 0
        rows = keep_rows(copy.swa, mapped[copy.swa_mask])
        copy_in(self.buffers_of[SWA], swa_locs[copy.swa_mask & mapped], rows)

    def move_kv_cache(self, targets: Tensor, sources: Tensor) -> None:
        """Move rows from `sources` to `targets`, full locs of the same length, in every layer.

        All sources are read before any target is written.
        """
        for buffer in self.buffers_of[FULL]:
            buffer[:, targets] = buffer[:, sources]
        swa_targets = self.gather(targets)
        swa_sources = self.gather(sources)
        for buffer in self.buffers_of[SWA]:
            buffer[:, swa_targets] = buffer[:, swa_sources]


class DeepSeekV4Pool(KvPool):
    """One row of keys a token, as in SGLang's ``DeepSeekV4TokenToKVPool``; its layers may be of both kinds."""

    parts = 1
