"""Mutants of what leaves the device, its copies on the host, and the way back."""

from __future__ import annotations

from .patches import mutants
from .transform import Mutant

__all__ = ["BACKUPS", "EVICTIONS", "LOAD_BACKS"]

_ENGINE = Mutant("", "builtin", (), "hybrid", ("uncached", "memo"), "", level="engine")

EVICTIONS = mutants(
    _ENGINE,
    """
evict-ignores-locks [evict]
    a leaf is evicted although a request or a transfer uses it
    @@ eviction Evictor._is_evictable
    - not node.full_locks and node.is_device_leaf
    + node.is_device_leaf
evict-ignores-swa-locks [evict]
    an inner node loses its SWA slots although a request's window is there
    @@ eviction Evictor.evict
    - node.swa is not None and not node.swa_locks
    + node.swa is not None
evict-parent-first [evict]
    a node leaves the device while its children stay
    @@ tree_nodes Node.is_device_leaf
    - self.full is not None and all(child.full is None for child in self.children.values())
    + self.full is not None
evict-stops-after-one-leaf [evict]
    an eviction that needs several leaves evicts only the first
    @@ eviction Evictor.evict
      swa_gone += self._evict_leaf(node)
    + break
make-room-evicts-nothing
    a request that finds no free slots is refused, even if eviction from the tree would free enough
    @@ eviction Evictor.make_room
    - self.evict(full_short * page_size, swa_short * page_size)
    + 0
evict-forgets-host [evict]
    a deleted node's host slots leak
    @@ tree_slots TreeSlots.delete
    - self.leave_host(node)
tombstone-keeps-slots [evict]
    an inner node's SWA slots are forgotten and not freed, and its full locs still map to them
    @@ tree_slots TreeSlots.leave_window
    - self.allocator.free_swa(node.full)
tombstone-counts-as-evictable [evict]
    the SWA tokens of a tombstone still count as evictable, and a request is admitted with slots that no eviction frees
    @@ tree_slots TreeSlots.leave_window
    - self.tree.ledger.take_off(node)
    @@ tree_slots TreeSlots.leave_window
    - self.tree.ledger.add(node)
prune-ignores-locks [evict]
    a tombstone left as a leaf is deleted while a request still shares it
    @@ tree_slots TreeSlots.prune
    - not useless.is_useless or useless.full_locks
    + not useless.is_useless
write-back-frees-at-once [evict]
    device slots are freed as soon as their backup is queued (SGLang PR 27108)
    @@ eviction Evictor._evict_leaf
    - if self.tier.write_back and self.tier.lacks_backup(node) and self.tier.backup(node, demote=True): return gone
    + if self.tier.write_back and self.tier.lacks_backup(node) and self.tier.backup(node, demote=True):
    +     self.slots.leave_device(node)
    +     return gone
write-back-stops-without-room [evict]
    an eviction under write_back ends when the host has no free slots for a leaf, although the leaf could be dropped, or
    an older copy (SGLang PR 31845)
    @@ eviction Evictor.evict
    - full_gone += len(node.tokens)
    + if self.tier.write_back and self.tier.lacks_backup(node) and len(self.tier.host.free["full"]) < len(node.tokens):
    +     break
    + full_gone += len(node.tokens)
write-back-demotes-in-use [evict admit transfer_done]
    a node that was matched while its backup was queued leaves the device when the copy is over
    @@ eviction Evictor.settle
    - transfer.demote and self._is_evictable(transfer.lock.node)
    + transfer.demote
ack-keeps-lock [transfer_done]
    a finished copy keeps its node locked: nothing can be evicted any more (SGLang PR 20049)
    @@ eviction Evictor.settle
    - self.slots.unlock(transfer.lock)
""",
)

BACKUPS = mutants(
    _ENGINE,
    """
backup-does-not-lock [evict]
    a node's device slots can be freed before its backup is over
    @@ hicache HostTier.backup
    + self.tree.unlock(lock)
    + lock = self.tree.lock(self.tree.root, 0)
      self.transfers.start(Transfer(True, device, host, lock, demote=demote))
backup-of-swa-at-insert [evict transfer_done]
    a backup reads SWA locs that were translated when their full locs were first inserted, and never refreshed
    @@ insertion Insertion._take
      if evicted <= node.start: node.swa = self._translate(own)
    + for loc, swa in zip(node.full, node.swa or []):
    +     vars(self.allocator).setdefault("at_insert", {}).setdefault(loc, swa)
    @@ hicache HostTier.backup
      host = Slots(*taken)
    + if device.swa:
    +     at_insert = vars(self.slots.allocator).get("at_insert", {})
    +     device = device._replace(swa=[at_insert.get(loc, swa) for loc, swa in zip(node.full, node.swa)])
backup-of-one-side [transfer_done]
    a backup claims to hold both kinds of rows and copies only the full ones
    @@ hicache HostTier.backup
    - Transfer(True, device, host, lock, demote=demote)
    + Transfer(True, device._replace(swa=[]), host._replace(swa=[]), lock, demote=demote)
backup-of-split-node [admit transfer_done]
    a node that is split while its backup is queued is copied in part: only the half that kept its name (SGLang PRs
    16946, 27072)
    @@ transfers TransferQueue.complete
      transfer = self.queued.pop(0)
    + if transfer.to_host and transfer.lock.node.full:
    +     node = transfer.lock.node
    +     now = [node.full if transfer.device.full else [], node.swa or [] if transfer.device.swa else []]
    +     there = [node.host_full if transfer.device.full else [], node.host_swa or [] if transfer.device.swa else []]
    +     transfer = Transfer(True, Slots(*now), Slots(*there), transfer.lock, demote=transfer.demote)
copy-misses-last-layer [evict admit]
    a load-back copies every layer but the last of each kind
    @@ transfers TransferQueue.complete
    - self._link.load(there, device, here, host)
    + self._link.load(there[:-1], device, here[:-1], host)
copy-misses-values [transfer_done]
    copies between device and host carry keys only
    @@ transfers TransferQueue.complete
    - self._device.buffers_of[kind]
    + self._device.buffers_of[kind][:1]
    @@ transfers TransferQueue.complete
    - self._host.buffers_of[kind]
    + self._host.buffers_of[kind][:1]
host-evicts-locked
    host slots that a queued copy reads or writes are given to another node
    @@ hicache HostTier._is_host_leaf
    - node.host_full is not None and not self._is_kept(node) and all(
    -     child.host_full is None for child in node.children.values()
    - )
    + node.host_full is not None and all(child.host_full is None for child in node.children.values())
host-frees-tail-twice
    the last slot of a node that leaves the host is freed twice (SGLang PR 13483)
    @@ tree_slots TreeSlots.leave_host
    - self.host.release(FULL, node.host_full)
    + self.host.release(FULL, node.host_full + node.host_full[-1:])
""",
)

LOAD_BACKS = mutants(
    _ENGINE,
    """
load-back-without-mapping [evict admit]
    a load-back takes SWA slots and does not map its full locs to them
    @@ load_back LoadBack._map_window
    - self.allocator.set_mapping(missing, self.allocator.take_swa(missing))
    + self.allocator.take_swa(missing)
load-back-without-invalidation [evict admit] policies=memo
    a load-back rebuilds the mapping in place under a translation that the policy has cached
    @@ swa SwaAllocator.set_mapping
    - self.policy.invalidate()
load-back-commits-first-chunk [evict admit]
    every node of a load-back gets the SWA locs of the first one
    @@ load_back LoadBack.load
    - swa[node.start - lock.since : node.end - lock.since]
    + swa[: len(node.tokens)]
load-back-counts-no-protected [evict admit]
    full tokens that are loaded back under a lock are not counted as protected, and the lock's release makes up for it
    @@ load_back LoadBack.load
      node.full = [next(fresh) for _ in node.tokens]
    + if node.full_locks:
    +     self.tree.ledger.full_protected -= len(node.tokens)
load-back-of-one-side [evict admit]
    a load-back maps both kinds of slots and copies the full rows only
    @@ load_back LoadBack._transfer
    - [loc for node in swa_nodes for loc in node.swa or ()]
    + []
    @@ load_back LoadBack._transfer
    - [slot for node in swa_nodes for slot in node.host_swa or ()]
    + []
load-back-skips-tombstones [evict admit]
    a node whose full rows are on the device is not loaded, although its window is on the host
    @@ load_back LoadBack.load
    - node.swa is None and node.start >= lock.since
    + node.full is None and node.start >= lock.since
load-back-awaits-full-rows [evict admit]
    a forward waits for load-backs of full rows, and not for one of SWA rows alone (SGLang PR 35931)
    @@ load_back LoadBack._transfer
    - [*full_nodes, *swa_nodes]
    + full_nodes
load-back-waits-one-short [evict admit]
    a forward starts before the last transfer that it needs
    @@ transfers TransferQueue.needed_for
    - enumerate(self.queued, 1)
    + enumerate(self.queued)
load-back-unlocks-source [evict admit]
    while room is made for a load-back, no lock protects its source (SGLang PRs 26728, 27631)
    @@ load_back LoadBack.load
    - if not self.evictor.make_room(full_pages, swa_pages):
    -     self.tree.unlock_host(lock.node)
    -     return None
    + self.tree.unlock_host(lock.node)
    + self.tree.unlock(lock)
    + room = self.evictor.make_room(full_pages, swa_pages)
    + self.tree.lock(lock.node, lock.since)
    + if not room:
    +     return None
    + self.tree.lock_host(lock.node)
load-back-drops-pin [evict admit abort]
    only the request protects the slots of a load-back, and it may be gone before the copy is over (SGLang PR 31427)
    @@ load_back LoadBack._transfer
    - self.tree.lock(lock.node, lock.since)
    + self.tree.lock(self.tree.root, 0)
load-back-keeps-host-lock [evict admit]
    a load-back that finds no room keeps its host lock, so those host slots are never reused
    @@ load_back LoadBack.load
    - self.tree.unlock_host(lock.node)
ack-keeps-host-lock [evict admit]
    a finished load-back keeps its host lock
    @@ eviction Evictor.settle
    - self.tree.unlock_host(transfer.source)
load-back-frees-source [evict admit]
    the host slots of a load-back are freed when it is queued, before they are read
    @@ load_back LoadBack.load
      self.transfers.start(self._transfer(lock, full_nodes, swa_nodes))
    + for node in full_nodes: self.evictor.slots.leave_host(node)
""",
)
