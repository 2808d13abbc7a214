"""Tags in KV rows: every row of a pool carries, in its first eight bytes, the integer that was written.

A row is looked at as integers and never computed with, so the bits come back as they went in,
whatever the dtype makes of them (a denormal, a NaN).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["DTYPES", "HEAD_DIM", "decode", "encode"]

HEAD_DIM = 4
"""Elements of a row that every dtype of `DTYPES` can hold a tag in: 8 or 16 bytes."""

DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
"""The dtypes a tag can be stored in, by the name `Config.dtype` uses."""


def encode(tags: Sequence[int], dtype: torch.dtype, head_dim: int = HEAD_DIM) -> Tensor:
    """Rows that carry `tags`: shape ``[len(tags), 1, head_dim]``, one head.

    `head_dim` elements must be a multiple of eight bytes. Bytes after the tag are zero.
    """
    words = head_dim * dtype.itemsize // 8
    if words == 1:
        row_words = list(tags)
    else:
        row_words = [0] * (words * len(tags))
        row_words[::words] = tags
    return torch.tensor(row_words, dtype=torch.int64).view(dtype).view(len(tags), 1, head_dim)


def decode(rows: Tensor) -> list[int]:
    """The tags of rows of shape ``[n, 1, head_dim]``, in order. Reads bytes and changes nothing."""
    words: list[int] = rows.view(torch.int64)[:, 0, 0].tolist()
    return words
