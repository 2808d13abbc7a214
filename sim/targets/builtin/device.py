"""Where a cache's tensors live: how graphs are captured there, and how data gets there and back.

`torch`'s default device decides: a cache that is built under ``with torch.device("cuda")`` is one on the GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import torch
from torch import Tensor

from ..arena import Arena
from .cuda import Cuda
from .virtual_graph import VirtualGraph

__all__ = ["Cpu", "Device", "Graph", "here"]


class Graph(Protocol):
    """Operations on tensors, captured once and run again and again."""

    def capture(self) -> AbstractContextManager[None]:
        """Capture the operations of a block; none of them runs."""

    def replay(self) -> None:
        """Run them, on the storage they were captured with."""


class Device(Protocol):
    """One device as one cache sees it.

    `offload` and `load` copy rows of one kind of layer between device and host, all layers at once: ``there`` and
    ``here`` have shape ``[layers, slots, 1, head_dim]``, and slots belong together in order.
    """

    def arena(self) -> Arena:
        """Where the loc tensors of forwards live that no graph runs."""

    def graph(self) -> Graph:
        """A graph to capture."""

    def upload(self, there: Tensor, host: Tensor) -> None:
        """Write a tensor of the host over one of the device, of the same shape."""

    def host_zeros(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Memory of the host that copies can reach."""

    def offload(self, there: Tensor, device: Sequence[int], here: Tensor, host: Sequence[int]) -> None:
        """Copy device slots to host slots; they are there on return."""

    def load(self, there: Tensor, device: Sequence[int], here: Tensor, host: Sequence[int]) -> None:
        """Copy host slots to device slots; whatever runs on the device next finds them there."""


class Cpu:
    """The CPU: nothing runs beside anything, and a graph is a virtual one. See `Device`."""

    def arena(self) -> Arena:
        """See `Device.arena`."""
        return Arena()

    def graph(self) -> Graph:
        """See `Device.graph`."""
        return VirtualGraph()

    def upload(self, there: Tensor, host: Tensor) -> None:
        """See `Device.upload`."""
        there.copy_(host)

    def host_zeros(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """See `Device.host_zeros`."""
        return torch.zeros(shape, dtype=dtype)

    def offload(self, there: Tensor, device: Sequence[int], here: Tensor, host: Sequence[int]) -> None:
        """See `Device.offload`."""
        here[:, host] = there[:, device]

    def load(self, there: Tensor, device: Sequence[int], here: Tensor, host: Sequence[int]) -> None:
        """See `Device.load`."""
        there[:, device] = here[:, host]


def here() -> Device:
    """The device that tensors are made on now."""
    return Cuda() if torch.get_default_device().type == "cuda" else Cpu()
