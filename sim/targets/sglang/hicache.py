"""A release's own host tier: its hybrid cache controller and host pools, on a virtual device.

Replaced are: the copy kernel, pinned memory, and the device module whose streams and events the
controller uses. Which node is backed up, loaded, locked and acknowledged, and when, is the release's code.
"""

from __future__ import annotations

import atexit
import importlib
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ....models.config import FULL, SWA, Config
from ..base import FreeSlots, Rows, TargetError
from ..engine import Copying
from ..tags import decode
from .leaves import Leaf, install
from .settings import SETTINGS
from .virtual import VirtualDevice

__all__ = ["HostTier", "HostTiers"]

_CACHE = "sglang.srt.mem_cache"
_CONTROLLERS = (
    "sglang.srt.managers.cache_controller",
    f"{_CACHE}.hybrid_cache.hybrid_cache_controller",
    f"{_CACHE}.l2_transfer",
)
_POOLS = (f"{_CACHE}.memory_pool_host", f"{_CACHE}.pool_host.mha")


class _Plain:
    """Stands for the table of functions that allocate host memory, by device."""

    def __getitem__(self, _device: object) -> Callable[..., torch.Tensor]:
        return self._zeros

    @staticmethod
    def _zeros(dims: tuple[int, ...], dtype: torch.dtype, **_how: object) -> torch.Tensor:
        return torch.zeros(dims, dtype=dtype)


class HostTiers:
    """Makes the release ready for host tiers, once a process.

    Attributes:
        device: the device of its controllers.
        replacements: the replacements made.
    """

    def __init__(self) -> None:
        self.device = VirtualDevice()
        self._sizes: dict[int, int] = {}
        assembler: Any = importlib.import_module(f"{_CACHE}.hybrid_cache.hybrid_pool_assembler")
        self.replacements = install((*self._leaves(), self._sized(assembler)))

    def _leaves(self) -> Iterable[Leaf]:
        for module in _CONTROLLERS:
            yield Leaf(module, "device_module", self.device, "all", "streams and events that the tape advances")
        for module in _POOLS:
            yield Leaf(
                module, "transfer_kv_direct", self._transfer, "all", "CUDA kernel; a queued copy of rows",
                absent=True,
            )  # fmt: skip
            yield Leaf(module, "ALLOC_MEMORY_FUNCS", _Plain(), "all", "pinned memory; plain memory instead")
        for module in (*_POOLS, f"{_CACHE}.pool_host.base"):
            yield Leaf(module, "HICACHE_HOST_MEMORY_RESERVE_BYTES", 0, "all", "memory kept for the rest of a server")

    def _sized(self, assembler: Any) -> Leaf:
        original: Callable[..., Any] = assembler.build_kv_host_pool

        def build_kv_host_pool(*, kv_pool: Any, page_size: int, **more: Any) -> Any:
            # The release adds a page to the size by ratio.
            size = self._sizes[id(kv_pool)]
            SETTINGS.hicache_ratio = (size - page_size + 0.5) / kv_pool.size
            pool = original(kv_pool=kv_pool, page_size=page_size, **more)
            if pool.size != size:
                raise TargetError(
                    f"a host pool of {size} tokens came out with {pool.size}; the adapter needs an update"
                )
            return pool

        reason = "each host pool has the size the tape says; the release has one ratio for both"
        return Leaf(assembler.__name__, "build_kv_host_pool", build_kv_host_pool, "all", reason)

    def _transfer(
        self,
        src_layers: list[torch.Tensor],
        dst_layers: list[torch.Tensor],
        src_indices: torch.Tensor,
        dst_indices: torch.Tensor,
        page_size: int,
    ) -> None:
        if len(src_indices) % page_size:
            raise ValueError(f"{len(src_indices)} rows are not whole pages of {page_size}")
        if len(set(dst_indices.tolist())) < len(dst_indices):
            # Copies of one submission are merged, and their rows are copied in no order.
            raise ValueError("a copy writes a row twice")
        if src_layers:  # a model may have no layer of one kind
            self.device.copy(src_layers, dst_layers, src_indices, dst_indices)

    def attach(self, config: Config, tree: Any, params: Any, kv: Any) -> HostTier:
        """Give a new tree its host tier."""
        self.device.reset()
        SETTINGS.hicache_write_policy = config.write_policy
        self._sizes = {id(kv.full_kv_pool): config.host_full_size, id(kv.swa_kv_pool): config.host_swa_size}
        tree.init_hicache(SETTINGS, params)
        tree.load_back_threshold = 1  # load back whatever is on the host, however little it is
        if hasattr(tree, "shutdown"):
            atexit.unregister(tree.shutdown)  # it would keep every tree of this process
        return HostTier(self.device, tree, kv)


class HostTier:
    """The host tier of one tree.

    Args:
        device: the device of its controller.
        tree: the release's tree.
        kv: its device pool.
    """

    def __init__(self, device: VirtualDevice, tree: Any, kv: Any) -> None:
        self._device = device
        self._tree = tree
        self._kv = kv
        self._counter = tree.cache_controller.layer_done_counter
        names = importlib.import_module(f"{_CACHE}.hicache_storage").PoolName
        self._pools = {FULL: tree.host_pool_group.get_pool(names.KV), SWA: tree.host_pool_group.get_pool(names.SWA)}
        self._places: dict[int, tuple[str, str]] = {}
        for kind, pool in ((FULL, kv.full_kv_pool), (SWA, kv.swa_kv_pool)):
            self._places[self._pools[kind].kv_buffer.untyped_storage().data_ptr()] = ("host", kind)
            for buffer in (*pool.k_buffer, *pool.v_buffer):
                self._places[buffer.untyped_storage().data_ptr()] = ("device", kind)
        self._loads: list[int] = []

    def start_loading(self) -> None:
        """Start the loads that admissions requested, as the scheduler does after it has formed a batch."""
        counters = self._counter.num_counters
        # A batch that used this counter before is long over, and waited for it.
        self._counter.events[(self._counter.producer_index + 1) % counters].finish_event.synchronize()
        index = self._tree.ready_to_load_host_cache()
        if index >= 0:
            self._loads.append(index)
        self.poll()

    def submit(self) -> None:
        """Start the backups that an insert asked for; from 0.5.20 on the scheduler does so after each step."""
        if hasattr(self._tree, "flush_pending_backups"):
            self._tree.flush_pending_backups()
        if not self._device.pending():
            self.poll()  # a backup of nothing but rows that no layer has is over at once

    def await_layer(self, layer: int) -> None:
        """A forward reads this layer now: it comes after every load that was started before."""
        for index in self._loads:
            self._counter.set_consumer(index)
            self._counter.wait_until(layer)
        self._counter.set_consumer(-1)
        unfinished = [index for index in self._loads if not self._counter.events[index].finish_event.query()]
        if len(unfinished) < len(self._loads):
            self._loads = unfinished
            self.poll()

    def poll(self) -> None:
        """Let the release poll for finished transfers, as it does before each step."""
        self._tree.check_hicache_events()

    def run(self, count: int) -> None:
        """The oldest `count` transfers are over."""
        for _ in range(min(count, self._device.pending())):
            self._device.run_oldest()
        self.poll()

    def drain(self) -> None:
        """Every transfer is over."""
        self._device.run_all()
        self.poll()

    def pending(self) -> int:
        """How many transfers are queued."""
        return self._device.pending()

    def free(self) -> FreeSlots:
        """The host pools' free lists, slot by slot."""
        return FreeSlots(full=self._free(FULL), swa=self._free(SWA))

    def _free(self, kind: str) -> list[int]:
        pool = self._pools[kind]
        slots: list[int] = pool.free_slots.tolist()
        for released in getattr(pool, "release_slots", ()):
            slots.extend(released.tolist())
        return slots

    def contents(self, layer: int) -> Rows:
        """Every host slot's row of one layer."""
        index, swa = self._kv.layers_mapping[layer]
        pool = self._pools[SWA if swa else FULL]
        return decode(pool.k_buffer[index], pool.v_buffer[index])

    def in_flight(self) -> list[Copying]:
        """The slots that queued copies read and write. The layers of one load copy the same rows, so they count
        once."""
        return [
            self._copying(*queued)
            for queued in dict.fromkeys(
                (self._place(copy.sources), tuple(copy.source_rows.tolist()), tuple(copy.target_rows.tolist()))
                for copy in self._device.queued()
            )
        ]

    @staticmethod
    def _copying(source: tuple[str, str], read: tuple[int, ...], written: tuple[int, ...]) -> Copying:
        side, kind = source
        to_host = side == "device"
        device, host = (
            FreeSlots(list(rows), []) if kind == FULL else FreeSlots([], list(rows))
            for rows in ((read, written) if to_host else (written, read))
        )
        return Copying(to_host, device, host)

    def _place(self, buffers: list[torch.Tensor]) -> tuple[str, str]:
        return self._places[buffers[0].untyped_storage().data_ptr()]
