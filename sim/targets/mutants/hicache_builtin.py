"""Mutants of what leaves the device, and of its copies on the host: eviction, backups, transfers."""

from __future__ import annotations

from .edits import after, before, drop, engine, swap
from .transform import Mutant

__all__ = ["BACKUPS", "EVICTIONS"]

_REMEMBER_SWA = """
for loc, swa in zip(node.full, node.swa or []):
    vars(self.allocator).setdefault("at_insert", {}).setdefault(loc, swa)
"""

_REMEMBERED_SWA = """
if device.swa:
    at_insert = vars(self.slots.allocator).get("at_insert", {})
    device = device._replace(swa=[at_insert.get(loc, swa) for loc, swa in zip(node.full, node.swa)])
"""

_SLOTS_OF_NODE_NOW = """
if transfer.to_host and transfer.lock.node.full:
    node = transfer.lock.node
    now = [node.full if transfer.device.full else [], node.swa or [] if transfer.device.swa else []]
    there = [node.host_full if transfer.device.full else [], node.host_swa or [] if transfer.device.swa else []]
    transfer = Transfer(True, Slots(*now), Slots(*there), transfer.lock, demote=transfer.demote)
"""

EVICTIONS: tuple[Mutant, ...] = (
    engine(
        "evict-ignores-locks",
        "a leaf is evicted although a request or a transfer uses it",
        swap(
            "eviction",
            "Evictor._is_evictable",
            "not node.full_locks and node.is_device_leaf",
            "node.is_device_leaf",
        ),
        events=("evict",),
    ),
    engine(
        "evict-ignores-swa-locks",
        "an inner node loses its SWA slots although a request's window is there",
        swap(
            "eviction",
            "Evictor.evict",
            "node.swa is not None and not node.swa_locks",
            "node.swa is not None",
        ),
        events=("evict",),
    ),
    engine(
        "evict-parent-first",
        "a node leaves the device while its children stay",
        swap(
            "tree_nodes",
            "Node.is_device_leaf",
            "self.full is not None and all(child.full is None for child in self.children.values())",
            "self.full is not None",
        ),
        events=("evict",),
    ),
    engine(
        "evict-stops-after-one-leaf",
        "an eviction that needs several leaves gives up the first alone",
        after("eviction", "Evictor.evict", "swa_gone += self._evict_leaf(node)", "break"),
        events=("evict",),
    ),
    engine(
        "make-room-evicts-nothing",
        "a request that finds no free slots is refused, whatever the tree could give up for it",
        swap("eviction", "Evictor.make_room", "self.evict(full_short * page_size, swa_short * page_size)", "0"),
    ),
    engine(
        "evict-forgets-host",
        "a deleted node's host slots leak",
        drop("tree_slots", "TreeSlots.delete", "self.leave_host(node)"),
        events=("evict",),
    ),
    engine(
        "tombstone-keeps-slots",
        "an inner node's SWA slots are forgotten and not freed, and its full locs still map to them",
        drop("tree_slots", "TreeSlots.leave_window", "self.allocator.free_swa(node.full)"),
        events=("evict",),
    ),
    engine(
        "prune-ignores-locks",
        "a tombstone left as a leaf is deleted while a request still shares it",
        swap("tree_slots", "TreeSlots.prune", "not useless.is_useless or useless.full_locks", "not useless.is_useless"),
        events=("evict",),
    ),
    engine(
        "write-back-frees-at-once",
        "device slots are freed as soon as their backup is queued (SGLang PR 27108)",
        swap(
            "eviction",
            "Evictor._evict_leaf",
            "if self.tier.write_back and self.tier.lacks_backup(node) and self.tier.backup(node, demote=True): "
            "return gone",
            "if self.tier.write_back and self.tier.lacks_backup(node) and self.tier.backup(node, demote=True):\n"
            "    self.slots.leave_device(node)\n"
            "    return gone",
        ),
        events=("evict",),
    ),
    engine(
        "write-back-demotes-in-use",
        "a node that was matched while its backup was queued leaves the device when the copy is over",
        swap(
            "eviction",
            "Evictor.settle",
            "transfer.demote and self._is_evictable(transfer.lock.node)",
            "transfer.demote",
        ),
        events=("evict", "admit", "transfer_done"),
    ),
    engine(
        "ack-keeps-lock",
        "a copy that is over goes on locking its node: nothing can be evicted any more (SGLang PR 20049)",
        drop("eviction", "Evictor.settle", "self.slots.unlock(transfer.lock)"),
        events=("transfer_done",),
    ),
)

BACKUPS: tuple[Mutant, ...] = (
    engine(
        "backup-does-not-lock",
        "a node's device slots can be freed before its backup is over",
        before(
            "hicache",
            "HostTier.backup",
            "self.transfers.start(Transfer(True, device, host, lock, demote=demote))",
            "self.tree.unlock(lock)\nlock = self.tree.lock(self.tree.root, 0)",
        ),
        events=("evict",),
    ),
    engine(
        "backup-of-swa-at-insert",
        "a backup reads SWA locs that were translated when their full locs were first inserted, and never refreshed",
        after(
            "insertion",
            "Insertion._take",
            "if evicted <= node.start: node.swa = self._translate(own)",
            _REMEMBER_SWA,
        ),
        after("hicache", "HostTier.backup", "host = Slots(*taken)", _REMEMBERED_SWA),
        events=("evict", "transfer_done"),
    ),
    engine(
        "backup-of-one-side",
        "a backup says that it holds both kinds of rows and copies the full ones",
        swap(
            "hicache",
            "HostTier.backup",
            "Transfer(True, device, host, lock, demote=demote)",
            "Transfer(True, device._replace(swa=[]), host._replace(swa=[]), lock, demote=demote)",
        ),
        events=("transfer_done",),
    ),
    engine(
        "backup-of-split-node",
        "a node that is split while its backup is queued is copied in part: only the half that kept its name "
        "(SGLang PRs 16946, 27072)",
        after("transfers", "TransferQueue.complete", "transfer = self.queued.pop(0)", _SLOTS_OF_NODE_NOW),
        events=("admit", "transfer_done"),
    ),
    engine(
        "copy-misses-last-layer",
        "a load-back copies every layer but the last of each kind",
        swap(
            "transfers",
            "TransferQueue.complete",
            "self._link.load(there, device, here, host)",
            "self._link.load(there[:-1], device, here[:-1], host)",
        ),
        events=("evict", "admit"),
    ),
    engine(
        "copy-misses-values",
        "copies between device and host carry keys only",
        swap(
            "transfers", "TransferQueue.complete", "self._device.buffers_of[kind]", "self._device.buffers_of[kind][:1]"
        ),
        swap("transfers", "TransferQueue.complete", "self._host.buffers_of[kind]", "self._host.buffers_of[kind][:1]"),
        events=("transfer_done",),
    ),
    engine(
        "host-evicts-locked",
        "host slots that a queued copy reads or writes are given to another node",
        swap(
            "hicache",
            "HostTier._is_host_leaf",
            "node.host_full is not None and not self._is_kept(node) and "
            "all(child.host_full is None for child in node.children.values())",
            "node.host_full is not None and all(child.host_full is None for child in node.children.values())",
        ),
    ),
    engine(
        "host-frees-tail-twice",
        "the last slot of a node that leaves the host is freed twice (SGLang PR 13483)",
        swap(
            "tree_slots",
            "TreeSlots.leave_host",
            "self.host.release(FULL, node.host_full)",
            "self.host.release(FULL, node.host_full + node.host_full[-1:])",
        ),
    ),
)
