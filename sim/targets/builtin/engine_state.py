"""The parts of the builtin engine put together, and its raw state for the checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ....models.config import FULL, SWA, Config
from ..base import MORE_PAGES, FreeSlots, Profile, Rows, TargetError
from ..engine import ENGINE_CALLS, Copying, Ledgers, NodeView, RequestView
from ..tags import DTYPES, decode
from .device import Device, here
from .eviction import Evictor
from .hicache import HostTier
from .host_pool import HostPool
from .insertion import Insertion
from .load_back import LoadBack
from .pools import KvPool
from .requests import Request, RequestTable, row_width
from .swa import SwaAllocator
from .target import BuiltinTarget
from .transfers import TransferQueue
from .tree import PrefixTree
from .tree_nodes import Node
from .tree_slots import TreeSlots

__all__ = ["ENGINE", "EngineState"]

ENGINE = Profile(
    level="engine",
    pool="hybrid",
    policies=("uncached", "memo"),
    page_sizes=(1, 2, 4, 16),
    more_pages=MORE_PAGES,
    dtypes=tuple(DTYPES),
    events=frozenset(ENGINE_CALLS),
    host=True,
    small_host=True,
    eviction_policies=("lru", "lfu", "fifo", "priority"),
)


class EngineState(BuiltinTarget):
    """Pools and allocator of `BuiltinTarget`, with a prefix tree, a host tier and requests over them."""

    _config: Config
    _device: Device
    _host: HostPool
    _transfers: TransferQueue
    _tree: PrefixTree
    _slots: TreeSlots
    _tier: HostTier
    _evictor: Evictor
    _insertion: Insertion
    _load_back: LoadBack
    _table: RequestTable
    _requests: dict[int, Request]

    def build(self, config: Config) -> None:
        """See `Target.build` and `EngineTarget.build`: `config.level` says which it will be driven as."""
        super().build(config)
        self._has_tree = config.level == ENGINE.level
        if config.level != ENGINE.level:
            return
        if not any(
            (it.level, it.pool, it.features) == (config.level, config.pool, config.features)
            and config.policy in it.policies
            for it in self.profiles
        ):
            raise TargetError(f"builtin has no engine on the {config.pool} pool with policy {config.policy}")
        self._config = config
        self._device = here()
        self._arena = self._device.arena()
        self._host = HostPool(config, self._pool.parts, self._device)
        self._transfers = TransferQueue(self._pool, self._host, self._device)
        self._tree = PrefixTree(config.page_size, config.window, config.eviction_policy)
        self._slots = TreeSlots(self._tree, self._allocator, self._host)
        self._tier = HostTier(self._slots, self._host, self._transfers, config.write_policy == "write_back")
        self._evictor = Evictor(self._slots, self._allocator, self._tier, self._transfers)
        self._insertion = Insertion(self._tree, self._allocator)
        self._load_back = LoadBack(self._tree, self._allocator, self._evictor, self._transfers)
        self._table = RequestTable(row_width(config))
        self._requests = {}

    def pending(self) -> int:
        """See `EngineTarget.pending`."""
        return len(self._transfers.queued)

    def raw_tree(self) -> list[NodeView]:
        """See `EngineTarget.raw_tree`."""
        due = Counter(node.name for it in self._transfers.queued if it.source is not None for node in it.source.path())
        return [_view(node, due[node.name]) for node in self._tree.nodes()]

    def raw_ledgers(self) -> Ledgers | None:
        """See `EngineTarget.raw_ledgers`."""
        it = self._tree.ledger
        return Ledgers(it.full_evictable, it.full_protected, it.swa_evictable, it.swa_protected)

    def raw_sanity(self, idle: bool) -> str | None:
        """See `EngineTarget.raw_sanity`. It has no check of its own."""
        return None

    def raw_requests(self) -> dict[int, RequestView]:
        """See `EngineTarget.raw_requests`."""
        return {request: self._request_view(running) for request, running in self._requests.items()}

    def _request_view(self, running: Request) -> RequestView:
        row = tuple(running.locs(0, min(running.length, self._table.width)))
        return RequestView(row, running.shared, running.evicted, overflow=running.length - len(row))

    def raw_host_free(self) -> FreeSlots:
        """See `EngineTarget.raw_host_free`."""
        return FreeSlots(list(self._host.free[FULL]), list(self._host.free[SWA]))

    def raw_host_contents(self, layer: int) -> Rows:
        """See `EngineTarget.raw_host_contents`."""
        return decode(*self._host.layer_buffers(layer))

    def declared(self, kind: str, call: Callable[[SwaAllocator, KvPool, Any], None]) -> None:
        """See `EngineTarget.declared`."""
        call(self._allocator, self._pool, self._tree if self._has_tree else None)

    def in_flight(self) -> list[Copying]:
        """See `EngineTarget.in_flight`. Nodes go on owning these slots."""
        return [
            Copying(
                transfer.to_host,
                FreeSlots(list(transfer.device.full), list(transfer.device.swa)),
                FreeSlots(list(transfer.host.full), list(transfer.host.swa)),
            )
            for transfer in self._transfers.queued
        ]


def _view(node: Node, host_due: int) -> NodeView:
    assert node.parent is not None
    return NodeView(
        node=node.name,
        parent=node.parent.name if node.parent.parent is not None else None,
        tokens=node.tokens,
        full=_frozen(node.full),
        swa=_frozen(node.swa),
        host_full=_frozen(node.host_full),
        host_swa=_frozen(node.host_swa),
        full_locks=node.full_locks,
        swa_locks=node.swa_locks,
        host_locks=node.host_locks,
        host_due=host_due,
    )


def _frozen(slots: list[int] | None) -> tuple[int, ...] | None:
    return None if slots is None else tuple(slots)
