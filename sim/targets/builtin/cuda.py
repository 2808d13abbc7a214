"""A GPU: real graphs, streams of their own for graphs and for copies, pinned host memory, copies that do not block."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ..arena import Arena

__all__ = ["Cuda", "CudaGraph"]


class CudaGraph:
    """A `torch.cuda.CUDAGraph` that is captured and replayed on one stream.

    Args:
        stream: not the default one.
        pool: handle of the memory that captured graphs of one cache share.
    """

    def __init__(self, stream: torch.cuda.Stream, pool: Any) -> None:
        self._stream = stream
        self._pool = pool
        self._graph = torch.cuda.CUDAGraph()

    @contextmanager
    def capture(self) -> Iterator[None]:
        """See `Graph.capture`."""
        torch.cuda.synchronize()
        collects = gc.isenabled()
        # A graph or a tensor that is collected during a capture would break it.
        gc.disable()
        try:
            with torch.cuda.stream(self._stream):
                self._graph.capture_begin(pool=self._pool)
                try:
                    yield
                finally:
                    self._graph.capture_end()
        finally:
            if collects:
                gc.enable()

    def replay(self) -> None:
        """See `Graph.replay`. It waits for what the current stream has queued, and the current stream for it."""
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            self._graph.replay()
        current.wait_stream(self._stream)


class _DeviceArena(Arena):
    """Batches of the engine level lie at the start of one tensor on the GPU."""

    def __init__(self) -> None:
        super().__init__()
        self._batches = torch.zeros(self._size, dtype=torch.int64)

    def _again(self, locs: Sequence[int]) -> Tensor:
        part = self._batches[: len(locs)]
        part.copy_(torch.tensor(locs, dtype=torch.int64, device="cpu").pin_memory(), non_blocking=True)
        return part


class Cuda:
    """The current GPU as one cache sees it. See `Device`."""

    def __init__(self) -> None:
        self._forward = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._copies = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    def arena(self) -> Arena:
        """See `Device.arena`."""
        return _DeviceArena()

    def graph(self) -> CudaGraph:
        """See `Device.graph`."""
        return CudaGraph(self._forward, self._pool)

    def upload(self, there: Tensor, host: Tensor) -> None:
        """See `Device.upload`."""
        there.copy_(host.pin_memory() if host.numel() else host, non_blocking=True)

    def host_zeros(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """See `Device.host_zeros`; pinned."""
        return torch.zeros(shape, dtype=dtype, device="cpu", pin_memory=0 not in shape)

    def offload(self, there: Tensor, device: Sequence[int], here: Tensor, host: Sequence[int]) -> None:
        """See `Device.offload`. The rows are gathered and copied on the copies' own stream."""
        if not host:
            return
        self._copies.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._copies):
            rows = there[:, torch.tensor(device, dtype=torch.int64)]
            landed = torch.empty(rows.shape, dtype=rows.dtype, device="cpu", pin_memory=True)
            landed.copy_(rows, non_blocking=True)
        self._copies.synchronize()
        here[:, torch.tensor(host, dtype=torch.int64, device="cpu")] = landed

    def load(self, there: Tensor, device: Sequence[int], here: Tensor, host: Sequence[int]) -> None:
        """See `Device.load`. What the current stream does next waits for the copies' stream."""
        if not host:
            return
        leaving = here[:, torch.tensor(host, dtype=torch.int64, device="cpu")].pin_memory()
        current = torch.cuda.current_stream()
        self._copies.wait_stream(current)
        with torch.cuda.stream(self._copies):
            rows = leaving.to(there.device, non_blocking=True)
            there[:, torch.tensor(device, dtype=torch.int64)] = rows
        current.wait_stream(self._copies)
