"""Copies between device and host: queued, run in order, and over only when somebody says so or waits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from ....models.config import FULL, SWA
from .device import Device
from .host_pool import HostPool
from .pools import KvPool
from .tree_nodes import Lock, Node

__all__ = ["Slots", "Transfer", "TransferQueue"]


class Slots(NamedTuple):
    """Slots of both kinds, one a row."""

    full: list[int]
    swa: list[int]


@dataclass(frozen=True)
class Transfer:
    """One copy. Until it is over, none of its slots may be given to anybody else.

    Attributes:
        to_host: a backup; otherwise a load-back.
        device: device slots.
        host: host slots, in the same order.
        lock: keeps both sides' slots; given up when the copy is over.
        source: of a load-back, the node whose path is locked on the host until the copy is over.
        awaited: full locs that cannot be read before it is over.
        demote: the node leaves the device after its backup, if nobody has used it in between.
    """

    to_host: bool
    device: Slots
    host: Slots
    lock: Lock
    source: Node | None = None
    awaited: frozenset[int] = frozenset()
    demote: bool = False


class TransferQueue:
    """Transfers that were started and are not over, oldest first."""

    def __init__(self, device: KvPool, host: HostPool, link: Device) -> None:
        self._device = device
        self._host = host
        self._link = link
        self.queued: list[Transfer] = []

    def start(self, transfer: Transfer) -> None:
        """Queue a copy."""
        self.queued.append(transfer)

    def needed_for(self, locs: Collection[int]) -> int:
        """How many of the oldest transfers must be over before these full locs can be read."""
        return max(
            (index for index, transfer in enumerate(self.queued, 1) if not transfer.awaited.isdisjoint(locs)), default=0
        )

    def complete(self) -> Transfer:
        """Run the oldest copy; it is over then."""
        transfer = self.queued.pop(0)
        for kind, device, host in (
            (FULL, transfer.device.full, transfer.host.full),
            (SWA, transfer.device.swa, transfer.host.swa),
        ):
            for there, here in zip(self._device.buffers_of[kind], self._host.buffers_of[kind], strict=True):
                if transfer.to_host:
                    self._link.offload(there, device, here, host)
                else:
                    self._link.load(there, device, here, host)
        return transfer
