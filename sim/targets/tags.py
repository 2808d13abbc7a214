"""Tags in KV rows: every row of a pool carries, in its first eight bytes, the integer that was written.

A row is read as integers and never used in a computation, so its bits do not change, even if they are a denormal or a
NaN in the row's dtype.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .base import V_MARK, Rows

__all__ = ["DTYPES", "WIDTH", "decode", "encode", "encode_rows"]

WIDTH = 4
"""Elements of a row: 8 or 16 bytes in every dtype of `DTYPES`, so that a tag fits."""

DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
"""The dtypes that a tag can be stored in, by the name `Config.dtype` uses."""


def encode_rows(tags: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Rows that carry `tags`: shape ``[len(tags), 1, WIDTH]``. The bytes after a tag are zero."""
    words = WIDTH * dtype.itemsize // 8
    padded = [0] * (words * len(tags))
    padded[::words] = tags
    return torch.tensor(padded, dtype=torch.int64).view(dtype).view(len(tags), 1, WIDTH)


def encode(tags: Sequence[int], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Key rows that carry `tags` and value rows that carry them plus `V_MARK`; see `encode_rows`."""
    return encode_rows(tags, dtype), encode_rows([tag + V_MARK for tag in tags], dtype)


def decode(keys: Tensor, values: Tensor | None = None) -> Rows:
    """The tags of rows of shape ``[n, 1, WIDTH]``. Reads bytes and changes nothing."""
    return Rows(_tags(keys), None if values is None else _tags(values))


def _tags(rows: Tensor) -> list[int]:
    words: list[int] = rows.view(torch.int64).flatten().tolist()  # quicker than to index the tensor
    return words[:: WIDTH * rows.itemsize // 8]
