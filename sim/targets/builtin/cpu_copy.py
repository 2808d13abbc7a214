"""KV rows on the CPU while a request is retracted: copied out and loaded back a few rows at a time.

A token of the request may have had no SWA slot when it was copied, and may have none when it is
loaded. The copy therefore says which rows it holds, and a load writes exactly the rows that are held
and have a slot now, each at its own position (SGLang PRs 24036 and 24857).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["CHUNK_ROWS", "Chunks", "CpuCopy", "copy_in", "copy_out", "keep_rows"]

CHUNK_ROWS = 3
"""Rows a chunk. Small, and no divisor of usual page sizes, so that short copies have a last chunk that is not full."""

Chunks = list[tuple[Tensor, ...]]
"""One tuple a chunk: a tensor for each of a pool's buffers, shape ``[layers, rows, 1, head_dim]``."""


@dataclass(frozen=True)
class CpuCopy:
    """A request's KV on the CPU.

    Attributes:
        full: the rows of full layers, one a token.
        swa: the rows of SWA layers, one a token that had an SWA slot.
        swa_mask: bool, one a token: it had an SWA slot.
    """

    full: Chunks
    swa: Chunks
    swa_mask: Tensor


def copy_out(buffers: Sequence[Tensor], locs: Tensor) -> Chunks:
    """Rows `locs` of each buffer, of shape ``[layers, slots, 1, head_dim]``."""
    return [tuple(buffer.index_select(1, part) for buffer in buffers) for part in torch.split(locs, CHUNK_ROWS)]


def keep_rows(chunks: Chunks, mask: Tensor) -> Chunks:
    """The rows where `mask` is true, in chunks of the usual size."""
    kept = (torch.split(torch.cat(parts, dim=1)[:, mask], CHUNK_ROWS, dim=1) for parts in zip(*chunks, strict=True))
    return list(zip(*kept, strict=True))


def copy_in(buffers: Sequence[Tensor], locs: Tensor, chunks: Chunks) -> None:
    """Write chunks, made by `copy_out` or `keep_rows`, to rows `locs` of each buffer."""
    for part, chunk in zip(torch.split(locs, CHUNK_ROWS), chunks, strict=True):
        for buffer, rows in zip(buffers, chunk, strict=True):
            buffer.index_copy_(1, part, rows)
