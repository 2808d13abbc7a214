"""The static buffers of captured graphs: every batch is written to the same place, for that is where a graph reads."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ....models.config import Config
from ..engine import MAX_GRAPH_TOKENS
from ..tags import DTYPES, WIDTH, encode
from .device import Device

__all__ = ["GraphBuffers"]


class GraphBuffers:
    """Inputs of a runner's graphs, at fixed addresses.

    Attributes:
        locs: full locs of the batch's tokens, then 0 (the dummy slot): int64, ``[MAX_GRAPH_TOKENS]``.
        swa_locs: room for their translation, if the policy hands one over; same shape.
        rows: what each layer is given to compute its rows from, one tensor a part of a row (keys, values):
            ``[layers, MAX_GRAPH_TOKENS, 1, head_dim]``.
    """

    def __init__(self, config: Config, parts: int, device: Device) -> None:
        self._dtype = DTYPES[config.dtype]
        self._device = device
        self.locs = torch.zeros(MAX_GRAPH_TOKENS, dtype=torch.int64)
        self.swa_locs = torch.zeros(MAX_GRAPH_TOKENS, dtype=torch.int64)
        shape = (len(config.layers), MAX_GRAPH_TOKENS, 1, WIDTH)
        self.rows = tuple(torch.zeros(shape, dtype=self._dtype) for _ in range(parts))

    def clear(self) -> None:
        """Put every token on the dummy slot, in both pools."""
        self.locs.zero_()
        self.swa_locs.zero_()

    def fill(self, locs: Sequence[int], tags: Sequence[Sequence[int]], size: int) -> None:
        """Write a batch that is to run through a graph of `size` tokens.

        Args:
            locs: full locs, at most `size`.
            tags: for each layer one tag a token.
            size: tokens of the graph.
        """
        count = len(locs)
        with torch.device("cpu"):
            host = torch.tensor(locs, dtype=torch.int64)
            encoded = [encode(layer, self._dtype) for layer in tags]
            parts = [torch.stack(part) for part in zip(*encoded, strict=True)]
        self._device.upload(self.locs[:count], host)
        # What the graph computes for tokens that are not there goes to the dummy slot.
        self.locs[count:size].zero_()
        for rows, part in zip(self.rows, parts, strict=False):
            self._device.upload(rows[:, :count], part)

    def of_layer(self, layer: int, size: int) -> tuple[Tensor, ...]:
        """One layer's input for a graph of `size` tokens, a tensor ``[size, 1, head_dim]`` per part."""
        return tuple(part[layer, :size] for part in self.rows)
