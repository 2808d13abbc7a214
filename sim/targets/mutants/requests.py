"""Mutants of whole requests: the scheduler"s steps, the prefix tree, and how tokens get into it."""

from __future__ import annotations

from .patches import mutants
from .transform import Mutant

__all__ = ["INSERTIONS", "REQUESTS", "TREES"]

_ENGINE = Mutant("", "builtin", (), "hybrid", ("uncached", "memo"), "", level="engine")

REQUESTS = mutants(
    _ENGINE,
    """
request-takes-last-token [admit]
    a prompt that is cached completely leaves nothing to compute, so there are no logits to sample from
    @@ engine BuiltinEngine.admit
    - len(tokens) - 1
    + len(tokens)
prefill-estimates-room
    a prefill is refused by an estimate of its tokens and a page more, although its pages are free (`alloc_extend` of
    SGLang 0.5.10.post1)
    @@ engine BuiltinEngine.prefill
    - self._make_room([start], [stop])
    + estimate = self._allocator.full.pages_needed([0], [count + self._config.page_size])
    + if not self._evictor.make_room(estimate, estimate):
    +     return None
checkpoint-inserts-partial-page [checkpoint]
    the tail that does not fill a page is inserted with the pages before it
    @@ engine BuiltinEngine.checkpoint
    - self._aligned(len(keys))
    + len(keys)
checkpoint-forgets-evicted [evict_window checkpoint]
    an insertion ignores the evicted length, and records evicted tokens as live SWA tokens (SGLang PRs 29350, 30845)
    @@ engine BuiltinEngine.checkpoint
    - self._insertion.insert(keys[:aligned], running.row[:aligned], running.shared, running.evicted)
    + self._insertion.insert(keys[:aligned], running.row[:aligned], running.shared, 0)
checkpoint-keeps-old-lock [checkpoint]
    a request that moves on to a longer prefix never releases its lock on the shorter one
    @@ engine BuiltinEngine.checkpoint
    - self._slots.unlock(running.lock)
checkpoint-drops-lock [checkpoint]
    a request continues from its inserted tokens without a lock on them
    @@ engine BuiltinEngine.checkpoint
    - self._tree.lock(node, self._tree.window_start(node, running.evicted))
    + self._tree.lock(self._tree.root, 0)
window-evicts-page-too-many [evict_window]
    the evicted length is one page further than the window allows
    @@ engine BuiltinEngine.evict_window
    - max(self._config.window, self._config.page_size)
    + max(self._config.window, self._config.page_size) - self._config.page_size
window-frees-shared [evict_window]
    window eviction frees the tree's SWA slots as if they were the request's own (SGLang PR 28085)
    @@ engine BuiltinEngine.evict_window
    - max(running.evicted, running.shared)
    + running.evicted
window-unlocks-too-much [evict_window evict]
    a request releases the SWA lock on nodes that its next token attends to
    @@ engine BuiltinEngine.evict_window
    - self._tree.release_window(running.lock, evicted)
    + self._tree.release_window(running.lock, running.length)
window-resolves-late [evict_window finish]
    window eviction queues full locs and reads the mapping at the next eviction, when they may belong to another request
    (SGLang PRs 36081, 36381)
    @@ engine BuiltinEngine.evict_window
    - self._allocator.free_swa(own)
    + late, self._tree.late = getattr(self._tree, "late", []), own
    + self._allocator.free_swa(late)
request-leaves-lock [finish]
    a request that is gone keeps its lock on the prefix
    @@ engine BuiltinEngine._release
    - self._slots.unlock(running.lock)
request-frees-shared [checkpoint finish]
    a request that leaves frees its whole row, including the tree's tokens
    @@ engine BuiltinEngine._release
    - running.locs(running.shared, running.length)
    + running.locs(0, running.length)
request-leaks-tail [finish]
    a request that leaves frees whole pages only, and its last partial page leaks (SGLang PR 19518)
    @@ engine BuiltinEngine._release
    - running.locs(running.shared, running.length)
    + running.locs(running.shared, self._aligned(running.length))
forward-keeps-metadata
    SWA layers write to the locs of the first batch of the same size, as if a captured graph kept them (SGLang PRs
    24743, 32555)
    @@ engine BuiltinEngine.write
    - self._pool.set_kv_buffer(layer, self._locs, *encode(tags, self._dtype))
    + locs = self._locs
    + if self._config.layers[layer] == "swa":
    +     locs = vars(self._pool).setdefault("kept", {}).setdefault(len(locs), locs.clone())
    + self._pool.set_kv_buffer(layer, locs, *encode(tags, self._dtype))
forward-does-not-wait [evict admit]
    a forward reads a prefix whose load-back is still queued
    @@ engine BuiltinEngine._wait
    - self._evictor.settle(self._transfers.needed_for(running.locs(0, running.length)))
""",
)

TREES = mutants(
    _ENGINE,
    """
match-ignores-tombstones [evict admit]
    a prefix is matched although its window has no SWA rows
    @@ tree PrefixTree.match
    - covered + len(node.tokens) if has_swa else 0
    + covered + len(node.tokens)
    @@ tree PrefixTree.match
    - covered_on_device + len(node.tokens) if node.swa is not None else 0
    + covered_on_device + len(node.tokens) if node.full is not None else 0
match-takes-host-for-device [evict admit]
    SWA rows on the host count as rows on the device, so they are not loaded back
    @@ tree PrefixTree.match
    - covered_on_device + len(node.tokens) if node.swa is not None else 0
    + covered_on_device + len(node.tokens) if node.full is not None and has_swa else 0
match-splits-inside-page
    keys are compared token by token, and a node is split where no page ends
    @@ tree PrefixTree._shared
    - while shared < len(key) and self._page(key, shared) == self._page(tokens, at + shared): shared += self.page_size
    + while shared < len(key) and at + shared < len(tokens) and key[shared] == tokens[at + shared]:
    +     shared += 1
split-swaps-swa
    a split gives each half the SWA locs of the other
    @@ tree PrefixTree.split
    - front.swa, node.swa = _cut(node.swa, at)
    + node.swa, front.swa = _cut(node.swa, at)
split-swaps-host
    a split gives each half the host slots of the other, and a load-back exchanges them
    @@ tree PrefixTree.split
    - front.host_full, node.host_full = _cut(node.host_full, at)
    + node.host_full, front.host_full = _cut(node.host_full, at)
split-drops-locks
    the parent that a split makes is not locked, although the lock was taken on both halves
    @@ tree PrefixTree.split
    - front.full_locks = node.full_locks
split-drops-host-locks [evict admit]
    the parent that a split makes is not locked on the host, although a load-back still reads both halves
    @@ tree PrefixTree.split
    - front.host_locks = node.host_locks
split-drops-swa-locks
    the parent that a split makes keeps no SWA slots, although the window reaches into it
    @@ tree PrefixTree.split
    - front.swa_locks = node.swa_locks
lock-window-page-short [evict]
    the SWA lock ends one page before the window does
    @@ tree PrefixTree.window_start
    - node.end - start >= self.window
    + node.end - start >= self.window - self.page_size
unlock-without-boundary
    a lock is released without its window boundary and takes other requests' SWA locks with it (SGLang PR 27038)
    @@ tree PrefixTree.unlock
    - ancestor.swa_locks -= ancestor.start >= lock.since
    + ancestor.swa_locks -= ancestor.swa_locks > 0
unlock-keeps-swa
    SWA locks are never released, and a later eviction finds the nodes locked (SGLang PRs 24153, 28161)
    @@ tree PrefixTree.unlock
    - ancestor.swa_locks -= ancestor.start >= lock.since
window-unlocks-twice [evict_window]
    a window that moves on twice releases the same SWA locks twice
    @@ tree PrefixTree.release_window
    - lock.since = since
""",
)

INSERTIONS = mutants(
    _ENGINE,
    """
dedupe-frees-tree-copy [checkpoint]
    of two copies of a prefix the tree's is freed
    @@ insertion Insertion._overlap
    - self.allocator.free(own.tolist())
    + self.allocator.free(node.full)
dedupe-keeps-row [checkpoint]
    a request whose duplicate slots were freed continues to read them
    @@ insertion Insertion._overlap
    - own.copy_(own.new_tensor(node.full))
insert-boundary-page-late [evict_window checkpoint]
    a new leaf's tombstone part reaches one page into the window
    @@ insertion Insertion.insert
    - for stop in (evicted, len(tokens)):
    -     if last.end < stop:
    -         last = self._append(last, tokens[last.end : stop], row, evicted)
    + evicted = evicted and evicted + self.tree.page_size
    + for stop in (evicted, len(tokens)):
    +     if last.end < stop:
    +         last = self._append(last, tokens[last.end : stop], row, evicted)
insert-leaf-unsplit [evict_window checkpoint]
    a leaf that begins before the evicted boundary becomes a tombstone as a whole
    @@ insertion Insertion.insert
    - (evicted, len(tokens))
    + (len(tokens),)
recovery-frees-through-stale-mapping [evict_window checkpoint]
    a recovery frees the request's full slots while they still map to the SWA slots that the tombstone just got (SGLang
    PRs 27586, 27789)
    @@ insertion Insertion._recover
    - self.allocator.set_mapping(slots, [0] * len(slots))
recovery-is-not-counted [evict_window checkpoint]
    the SWA tokens of a recovered tombstone are not counted, so the tree offers fewer than it can evict
    @@ insertion Insertion._recover
    - self.tree.ledger.take_off(node)
    @@ insertion Insertion._recover
    - self.tree.ledger.add(node)
recovery-keeps-row [evict_window checkpoint]
    a request continues with the full slots that it lost to a recovery
    @@ insertion Insertion._recover
    - own.copy_(own.new_tensor(full))
recovery-forgets-value [evict_window checkpoint]
    a recovered tombstone is mapped and still counts as a tombstone
    @@ insertion Insertion._recover
    - node.swa = swa
recovery-of-wrong-half [evict_window checkpoint]
    the part of a tombstone before the request's window is recovered, and the part in it is not
    @@ insertion Insertion._overlap
    - node.swa is None and evicted <= node.start
    + node.swa is None and evicted >= node.end
""",
)
