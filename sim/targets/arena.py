"""Where loc tensors live. A cache keyed by address is right or wrong depending on this alone.

Engines build a batch's loc tensor in new memory, in a buffer they re-use for every batch, or as a
slice of such a buffer (a captured CUDA graph's static input is one). An arena offers the three, and
decides which memory may be written twice: a part of the persistent buffer, at the start of a
forward and at no other time. New memory is kept, so that no address comes back within one build and
a tape gives the same answer every time it is played.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["Arena"]


class Arena:
    """The memory of one build's loc tensors. All tensors are one-dimensional int64 on the CPU."""

    def __init__(self, size: int = 4096) -> None:
        self._buffer = torch.zeros(size, dtype=torch.int64)
        self._unused = 0
        self._kept: list[Tensor] = []

    def batch(self, locs: Sequence[int], storage: str, offset: int) -> Tensor:
        """The loc tensor of a forward that starts now.

        Args:
            locs: its elements.
            storage: ``"fresh"`` (new memory), ``"reused"`` (the persistent buffer from its start) or
                ``"view"`` (the persistent buffer from `offset`). A batch too long for the buffer gets
                new memory.
            offset: elements before a view.

        Raises:
            ValueError: `storage` is none of the three.
        """
        self._unused = 0
        if storage == "fresh":
            return self._fresh(locs)
        if storage not in ("reused", "view"):
            raise ValueError(f'storage must be "fresh", "reused" or "view", not {storage!r}')
        return self._place(locs, offset if storage == "view" else 0)

    def other(self, locs: Sequence[int], view: bool) -> Tensor:
        """A loc tensor that is not the batch's: new memory, or with `view` the part of the persistent
        buffer after everything placed since the last forward began."""
        return self._place(locs, self._unused) if view else self._fresh(locs)

    def _place(self, locs: Sequence[int], start: int) -> Tensor:
        stop = start + len(locs)
        if stop > self._buffer.numel():
            return self._fresh(locs)
        self._unused = stop
        part = self._buffer[start:stop]
        part.copy_(torch.tensor(locs, dtype=torch.int64))
        return part

    def _fresh(self, locs: Sequence[int]) -> Tensor:
        tensor = torch.tensor(locs, dtype=torch.int64)
        self._kept.append(tensor)
        return tensor
