"""Mutants of the load-back: what is on the host gets slots on the device, and its mapping back."""

from __future__ import annotations

from .edits import after, drop, engine, swap
from .transform import Mutant

__all__ = ["LOAD_BACKS"]

_ROOM = """
if not self.evictor.make_room(full_pages, swa_pages):
    self.tree.unlock_host(lock.node)
    return None
"""

_ROOM_WITHOUT_LOCK = """
self.tree.unlock_host(lock.node)
self.tree.unlock(lock)
room = self.evictor.make_room(full_pages, swa_pages)
self.tree.lock(lock.node, lock.since)
if not room:
    return None
self.tree.lock_host(lock.node)
"""

LOAD_BACKS: tuple[Mutant, ...] = (
    engine(
        "load-back-without-mapping",
        "a load-back takes SWA slots and does not map its full locs to them",
        swap(
            "load_back",
            "LoadBack._map_window",
            "self.allocator.set_mapping(missing, self.allocator.take_swa(missing))",
            "self.allocator.take_swa(missing)",
        ),
        events=("evict", "admit"),
    ),
    engine(
        "load-back-without-invalidation",
        "a load-back rebuilds the mapping in place under an answer that the policy remembers",
        drop("swa", "SwaAllocator.set_mapping", "self.policy.invalidate()"),
        events=("evict", "admit"),
        policies=("memo",),
    ),
    engine(
        "load-back-commits-first-chunk",
        "every node of a load-back gets the SWA locs of the first one",
        swap(
            "load_back",
            "LoadBack.load",
            "swa[node.start - lock.since : node.end - lock.since]",
            "swa[: len(node.tokens)]",
        ),
        events=("evict", "admit"),
    ),
    engine(
        "load-back-of-one-side",
        "a load-back maps both kinds of slots and copies the full rows only",
        swap("load_back", "LoadBack._transfer", "[loc for node in swa_nodes for loc in node.swa or ()]", "[]"),
        swap("load_back", "LoadBack._transfer", "[slot for node in swa_nodes for slot in node.host_swa or ()]", "[]"),
        events=("evict", "admit"),
    ),
    engine(
        "load-back-skips-tombstones",
        "a node whose full rows are on the device is not loaded, although its window is on the host",
        swap(
            "load_back",
            "LoadBack.load",
            "node.swa is None and node.start >= lock.since",
            "node.full is None and node.start >= lock.since",
        ),
        events=("evict", "admit"),
    ),
    engine(
        "load-back-awaits-full-rows",
        "a forward waits for load-backs of full rows, and not for one that brings SWA rows alone (SGLang PR 35931)",
        swap("load_back", "LoadBack._transfer", "[*full_nodes, *swa_nodes]", "full_nodes"),
        events=("evict", "admit"),
    ),
    engine(
        "load-back-waits-one-short",
        "a forward starts before the last transfer that it needs",
        swap("transfers", "TransferQueue.needed_for", "enumerate(self.queued, 1)", "enumerate(self.queued)"),
        events=("evict", "admit"),
    ),
    engine(
        "load-back-unlocks-source",
        "while room is made for a load-back, nothing keeps what it is going to load (SGLang PRs 26728, 27631)",
        swap(
            "load_back",
            "LoadBack.load",
            _ROOM,
            _ROOM_WITHOUT_LOCK,
        ),
        events=("evict", "admit"),
    ),
    engine(
        "load-back-drops-pin",
        "the slots of a load-back are kept by its request alone, which may be gone before the copy is over "
        "(SGLang PR 31427)",
        swap(
            "load_back",
            "LoadBack._transfer",
            "self.tree.lock(lock.node, lock.since)",
            "self.tree.lock(self.tree.root, 0)",
        ),
        events=("evict", "admit", "abort"),
    ),
    engine(
        "load-back-keeps-host-lock",
        "a load-back that finds no room leaves its host lock behind: those host slots are never given to others",
        drop("load_back", "LoadBack.load", "self.tree.unlock_host(lock.node)"),
        events=("evict", "admit"),
    ),
    engine(
        "ack-keeps-host-lock",
        "a load-back that is over leaves its host lock behind",
        drop("eviction", "Evictor.settle", "self.tree.unlock_host(transfer.source)"),
        events=("evict", "admit"),
    ),
    engine(
        "load-back-frees-source",
        "the host slots of a load-back are freed when it is queued, before they are read",
        after(
            "load_back",
            "LoadBack.load",
            "self.transfers.start(self._transfer(lock, full_nodes, swa_nodes))",
            "for node in full_nodes: self.evictor.slots.leave_host(node)",
        ),
        events=("evict", "admit"),
    ),
)
