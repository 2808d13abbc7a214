"""Where loc tensors live. A cache keyed by address is right or wrong depending on this alone.

Engines build a batch's loc tensor in new memory, in a buffer they re-use for every batch, or as a
slice of such a buffer (the static input of a captured CUDA graph is one). An arena offers the three,
and decides which memory may be written twice: the persistent buffer, once a forward starts, and no
other. New memory is kept, so that no address comes back within one build and a tape gives the same
answers every time it is played.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["Arena"]


class Arena:
    """The memory of one build's loc tensors, all of them one-dimensional int64 on the CPU.

    Args:
        size: elements of the persistent buffer. What does not fit gets new memory.
    """

    def __init__(self, size: int = 4096) -> None:
        self._buffer = torch.zeros(size, dtype=torch.int64)
        self._unused = 0
        self._kept: list[Tensor] = []

    def place(self, locs: Sequence[int], storage: str, offset: int) -> Tensor:
        """The loc tensor of a forward that starts now; earlier contents of the buffer are void.

        Args:
            locs: its elements.
            storage: ``"fresh"`` (new memory), ``"reused"`` (the buffer from its start) or ``"view"``
                (the buffer from `offset`).
            offset: elements before a view.

        Raises:
            ValueError: `storage` is none of the three.
        """
        self._unused = 0
        if storage == "fresh":
            return self.fresh(locs)
        if storage not in ("reused", "view"):
            raise ValueError(f'storage must be "fresh", "reused" or "view", not {storage!r}')
        return self._write(locs, offset if storage == "view" else 0)

    def view(self, locs: Sequence[int]) -> Tensor:
        """A loc tensor in a part of the buffer that was not used since the last forward started."""
        return self._write(locs, self._unused)

    def fresh(self, locs: Sequence[int]) -> Tensor:
        """A loc tensor in new memory."""
        tensor = torch.tensor(locs, dtype=torch.int64)
        self._kept.append(tensor)
        return tensor

    def _write(self, locs: Sequence[int], start: int) -> Tensor:
        stop = start + len(locs)
        if stop > self._buffer.numel():
            return self.fresh(locs)
        self._unused = stop
        part = self._buffer[start:stop]
        part.copy_(torch.tensor(locs, dtype=torch.int64))
        return part
