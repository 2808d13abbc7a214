"""The host's KV pools: slots and rows of both kinds, token by token."""

from __future__ import annotations

from torch import Tensor

from ....models.config import FULL, SWA, Config
from ..tags import DTYPES, WIDTH
from .device import Device

__all__ = ["HostPool"]


class HostPool:
    """Slots on the host, from 0 on; there is no dummy slot, for nothing but copies writes here.

    `buffers_of` is laid out as in `KvPool`. Without a host tier there are no slots.

    Args:
        config: the shape; its host sizes.
        parts: tensors a row: keys, values.
        device: where the rows are copied from and to.
    """

    def __init__(self, config: Config, parts: int, device: Device) -> None:
        self._sizes = {FULL: config.host_full_size, SWA: config.host_swa_size}
        self.buffers_of = {
            kind: tuple(
                device.host_zeros((config.layers.count(kind), size, 1, WIDTH), DTYPES[config.dtype])
                for _ in range(parts)
            )
            for kind, size in self._sizes.items()
        }
        self._place = [(kind, config.layers[:layer].count(kind)) for layer, kind in enumerate(config.layers)]
        self.free: dict[str, list[int]] = {}
        self.clear()

    def clear(self) -> None:
        """Make every slot free."""
        self.free = {kind: list(range(size)) for kind, size in self._sizes.items()}

    def take(self, full: int, swa: int) -> tuple[list[int], list[int]] | None:
        """So many slots of each kind, or None, and nothing changes, if there are too few of one."""
        if full > len(self.free[FULL]) or swa > len(self.free[SWA]):
            return None
        taken = self.free[FULL][:full], self.free[SWA][:swa]
        del self.free[FULL][:full]
        del self.free[SWA][:swa]
        return taken

    def release(self, kind: str, slots: list[int]) -> None:
        """Give slots of one kind back."""
        self.free[kind].extend(slots)

    def layer_buffers(self, layer: int) -> tuple[Tensor, ...]:
        """The buffers of one layer, keys first, each ``[slots, 1, head_dim]``."""
        kind, index = self._place[layer]
        return tuple(part[index] for part in self.buffers_of[kind])
