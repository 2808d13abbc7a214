"""Mutants of whole requests: what each of the scheduler's steps gets wrong."""

from __future__ import annotations

from .edits import drop, engine, swap
from .transform import Mutant

__all__ = ["REQUESTS"]

_RESOLVE_QUEUED_LOCS = """
late, self._tree.late = getattr(self._tree, "late", []), own
self._allocator.free_swa(late)
"""

_KEEP_METADATA = """
locs = self._locs
if self._config.layers[layer] == "swa":
    locs = vars(self._pool).setdefault("kept", {}).setdefault(len(locs), locs.clone())
self._pool.set_kv_buffer(layer, locs, *encode(tags, self._dtype))
"""

_ESTIMATE_ROOM = """
estimate = self._allocator.full.pages_needed([0], [count + self._config.page_size])
if not self._evictor.make_room(estimate, estimate):
    return None
"""

REQUESTS: tuple[Mutant, ...] = (
    engine(
        "request-takes-last-token",
        "a prompt that is cached completely leaves nothing to compute, so there are no logits to sample from",
        swap("engine", "BuiltinEngine.admit", "len(tokens) - 1", "len(tokens)"),
        events=("admit",),
    ),
    engine(
        "prefill-estimates-room",
        "a prefill is refused by an estimate of its tokens and a page more, although its pages are free "
        "(`alloc_extend` of SGLang 0.5.10.post1)",
        swap("engine", "BuiltinEngine.prefill", "self._make_room([start], [stop])", _ESTIMATE_ROOM),
    ),
    engine(
        "checkpoint-inserts-partial-page",
        "the tail that does not fill a page is inserted with the pages before it",
        swap("engine", "BuiltinEngine.checkpoint", "self._aligned(len(keys))", "len(keys)"),
        events=("checkpoint",),
    ),
    engine(
        "checkpoint-forgets-evicted",
        "an insertion is not told how far the window was evicted, and records evicted tokens as live SWA "
        "(SGLang PRs 29350, 30845)",
        swap(
            "engine",
            "BuiltinEngine.checkpoint",
            "self._insertion.insert(keys[:aligned], running.row[:aligned], running.shared, running.evicted)",
            "self._insertion.insert(keys[:aligned], running.row[:aligned], running.shared, 0)",
        ),
        events=("evict_window", "checkpoint"),
    ),
    engine(
        "checkpoint-keeps-old-lock",
        "a request that moves on to a longer prefix never gives up its reference to the shorter one",
        drop("engine", "BuiltinEngine.checkpoint", "self._slots.unlock(running.lock)"),
        events=("checkpoint",),
    ),
    engine(
        "checkpoint-drops-lock",
        "a request goes on from what it inserted without a reference to it",
        swap(
            "engine",
            "BuiltinEngine.checkpoint",
            "self._tree.lock(node, self._tree.window_start(node, running.evicted))",
            "self._tree.lock(self._tree.root, 0)",
        ),
        events=("checkpoint",),
    ),
    engine(
        "window-evicts-page-too-many",
        "the evicted length is one page further than the window allows",
        swap(
            "engine",
            "BuiltinEngine.evict_window",
            "max(self._config.window, self._config.page_size)",
            "max(self._config.window, self._config.page_size) - self._config.page_size",
        ),
        events=("evict_window",),
    ),
    engine(
        "window-frees-shared",
        "window eviction takes the tree's SWA slots for the request's own (SGLang PR 28085)",
        swap("engine", "BuiltinEngine.evict_window", "max(running.evicted, running.shared)", "running.evicted"),
        events=("evict_window",),
    ),
    engine(
        "window-unlocks-too-much",
        "a request gives up the SWA lock on nodes that its next token attends to",
        swap(
            "engine",
            "BuiltinEngine.evict_window",
            "self._tree.release_window(running.lock, evicted)",
            "self._tree.release_window(running.lock, running.length)",
        ),
        events=("evict_window", "evict"),
    ),
    engine(
        "window-resolves-late",
        "window eviction queues full locs and reads the mapping at the next one, when they may belong to somebody "
        "else (SGLang PRs 36081, 36381)",
        swap("engine", "BuiltinEngine.evict_window", "self._allocator.free_swa(own)", _RESOLVE_QUEUED_LOCS),
        events=("evict_window", "finish"),
    ),
    engine(
        "request-leaves-lock",
        "a request that is gone still holds its prefix",
        drop("engine", "BuiltinEngine._release", "self._slots.unlock(running.lock)"),
        events=("finish",),
    ),
    engine(
        "request-frees-shared",
        "a request that leaves frees its whole row, the tree's tokens too",
        swap(
            "engine",
            "BuiltinEngine._release",
            "running.locs(running.shared, running.length)",
            "running.locs(0, running.length)",
        ),
        events=("checkpoint", "finish"),
    ),
    engine(
        "request-leaks-tail",
        "a request that leaves frees whole pages only, and its last partial page leaks (SGLang PR 19518)",
        swap(
            "engine",
            "BuiltinEngine._release",
            "running.locs(running.shared, running.length)",
            "running.locs(running.shared, self._aligned(running.length))",
        ),
        events=("finish",),
    ),
    engine(
        "forward-keeps-metadata",
        "SWA layers write where the first batch of the same size wrote: its locs are kept as a captured graph's "
        "are (SGLang PRs 24743, 32555)",
        swap(
            "engine",
            "BuiltinEngine.write",
            "self._pool.set_kv_buffer(layer, self._locs, *encode(tags, self._dtype))",
            _KEEP_METADATA,
        ),
    ),
    engine(
        "forward-does-not-wait",
        "a forward reads a prefix whose load-back is still queued",
        drop(
            "engine",
            "BuiltinEngine._wait",
            "self._evictor.settle(self._transfers.needed_for(running.locs(0, running.length)))",
        ),
        events=("evict", "admit"),
    ),
)
