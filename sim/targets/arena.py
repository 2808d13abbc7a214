"""The memory of loc tensors. The correctness of a cache keyed by address or by tensor depends only on it.

An engine builds a loc tensor in new memory, in memory that an earlier tensor has freed, or in a static buffer that it
writes for every batch (the input of a captured CUDA graph, for example); or it keeps the tensor for later. An arena
offers all of these. Only the memory of batches is written again, when a forward starts. Other memory is kept, so that
no address recurs by chance within one build, and a tape gives the same results each time it is played.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["Arena"]


class Arena:
    """The memory of one build's loc tensors, int64 on the CPU.

    Args:
        size: elements of the memory that batches reuse. Tensors that do not fit get new memory.
    """

    def __init__(self, size: int = 4096) -> None:
        memory = bytearray(8 * size)
        self._size = size
        self._memory = memory
        self._words = memoryview(memory).cast("q")
        self._buffer = torch.frombuffer(memory, dtype=torch.int64)
        self._unused = 0
        self._alive: list[Tensor] = []
        self._kept: dict[tuple[int, ...], Tensor] = {}

    def place(self, locs: Sequence[int], storage: str, offset: int) -> Tensor:
        """The loc tensor of a forward that starts now. The tensors of earlier forwards in the shared memory become
        void.

        Args:
            locs: its elements.
            storage: ``"fresh"`` (new memory), ``"reused"`` (a new tensor at the start of the shared memory, as a
                caching allocator hands the same block out again) or ``"view"`` (elements of the one static
                buffer there, from `offset`, written in place).
            offset: elements before a view.

        Raises:
            ValueError: `storage` is none of the three.
        """
        self._unused = 0
        if storage == "fresh":
            return self.fresh(locs)
        if storage == "reused":
            return self._again(locs)
        if storage == "view":
            return self._write(locs, offset)
        raise ValueError(f'storage must be "fresh", "reused" or "view", not {storage!r}')

    def ask(self, locs: Sequence[int], source: str) -> Tensor:
        """A loc tensor to translate, other than the running batch's own. See `Translate`; ``"table"`` has two rows."""
        if source == "view":
            return self._write(locs, self._unused)
        if source == "kept" and tuple(locs) in self._kept:
            return self._kept[tuple(locs)]
        tensor = self.fresh(locs)
        if source == "kept":
            self._kept[tuple(locs)] = tensor
        return tensor.view(2, -1) if source == "table" else tensor

    def fresh(self, locs: Sequence[int]) -> Tensor:
        """A loc tensor in new memory."""
        tensor = torch.tensor(locs, dtype=torch.int64)
        self._alive.append(tensor)
        return tensor

    def _again(self, locs: Sequence[int]) -> Tensor:
        if not 0 < len(locs) <= self._size:
            return self.fresh(locs)
        self._unused = len(locs)
        self._words[: len(locs)] = array("q", locs)
        return torch.frombuffer(self._memory, dtype=torch.int64, count=len(locs))

    def _write(self, locs: Sequence[int], start: int) -> Tensor:
        stop = start + len(locs)
        if stop > self._size:
            return self.fresh(locs)
        self._unused = stop
        part = self._buffer[start:stop]
        part.copy_(torch.tensor(locs, dtype=torch.int64))
        return part
