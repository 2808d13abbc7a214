"""Mutants of the prefix tree: matches, splits, locks, and how requests' tokens get into it."""

from __future__ import annotations

from .edits import drop, engine, swap
from .transform import Mutant

__all__ = ["INSERTIONS", "TREES"]

_MATCH_TOKEN_BY_TOKEN = """
while shared < len(key) and at + shared < len(tokens) and key[shared] == tokens[at + shared]:
    shared += 1
"""

TREES: tuple[Mutant, ...] = (
    engine(
        "match-ignores-tombstones",
        "a prefix is matched although its window has no SWA rows",
        swap("tree", "PrefixTree.match", "covered + len(node.tokens) if has_swa else 0", "covered + len(node.tokens)"),
        swap(
            "tree",
            "PrefixTree.match",
            "covered_on_device + len(node.tokens) if node.swa is not None else 0",
            "covered_on_device + len(node.tokens) if node.full is not None else 0",
        ),
        events=("evict", "admit"),
    ),
    engine(
        "match-takes-host-for-device",
        "SWA rows that are on the host count as if they were on the device, so nobody loads them back",
        swap(
            "tree",
            "PrefixTree.match",
            "covered_on_device + len(node.tokens) if node.swa is not None else 0",
            "covered_on_device + len(node.tokens) if node.full is not None and has_swa else 0",
        ),
        events=("evict", "admit"),
    ),
    engine(
        "match-splits-inside-page",
        "keys are compared token by token, and a node is split where no page ends",
        swap(
            "tree",
            "PrefixTree._shared",
            "while shared < len(key) and self._page(key, shared) == self._page(tokens, at + shared): "
            "shared += self.page_size",
            _MATCH_TOKEN_BY_TOKEN,
        ),
    ),
    engine(
        "split-swaps-swa",
        "a split leaves the SWA locs of each half on the other",
        swap(
            "tree",
            "PrefixTree.split",
            "front.swa, node.swa = _cut(node.swa, at)",
            "node.swa, front.swa = _cut(node.swa, at)",
        ),
    ),
    engine(
        "split-swaps-host",
        "a split leaves the host slots of each half on the other, and a load-back exchanges them",
        swap(
            "tree",
            "PrefixTree.split",
            "front.host_full, node.host_full = _cut(node.host_full, at)",
            "node.host_full, front.host_full = _cut(node.host_full, at)",
        ),
    ),
    engine(
        "split-drops-locks",
        "the parent that a split makes is not locked, although the lock was taken on both halves",
        drop("tree", "PrefixTree.split", "front.full_locks = node.full_locks"),
    ),
    engine(
        "split-drops-swa-locks",
        "the parent that a split makes keeps no SWA slots, although the window reaches into it",
        drop("tree", "PrefixTree.split", "front.swa_locks = node.swa_locks"),
    ),
    engine(
        "lock-window-page-short",
        "the SWA lock ends one page before the window does",
        swap(
            "tree",
            "PrefixTree.window_start",
            "node.end - start >= self.window",
            "node.end - start >= self.window - self.page_size",
        ),
        events=("evict",),
    ),
    engine(
        "unlock-without-boundary",
        "a lock is released without its window boundary and takes other requests' SWA locks with it (SGLang PR 27038)",
        swap(
            "tree",
            "PrefixTree.unlock",
            "ancestor.swa_locks -= ancestor.start >= lock.since",
            "ancestor.swa_locks -= ancestor.swa_locks > 0",
        ),
    ),
    engine(
        "unlock-keeps-swa",
        "SWA locks are never given up, and a later eviction meets them (SGLang PRs 24153, 28161)",
        drop("tree", "PrefixTree.unlock", "ancestor.swa_locks -= ancestor.start >= lock.since"),
    ),
    engine(
        "window-unlocks-twice",
        "a window that moves on twice gives up the same SWA locks twice",
        drop("tree", "PrefixTree.release_window", "lock.since = since"),
        events=("evict_window",),
    ),
)

INSERTIONS: tuple[Mutant, ...] = (
    engine(
        "dedupe-frees-tree-copy",
        "of two copies of a prefix the tree's is freed",
        swap("insertion", "Insertion._overlap", "self.allocator.free(own.tolist())", "self.allocator.free(node.full)"),
        events=("checkpoint",),
    ),
    engine(
        "dedupe-keeps-row",
        "a request whose duplicate slots were freed goes on reading them",
        drop("insertion", "Insertion._overlap", "own.copy_(own.new_tensor(node.full))"),
        events=("checkpoint",),
    ),
    engine(
        "insert-boundary-page-late",
        "a new leaf's tombstone part reaches one page into the window",
        swap(
            "insertion",
            "Insertion.insert",
            "for stop in (evicted, len(tokens)):\n"
            "    if last.end < stop:\n"
            "        last = self._append(last, tokens[last.end : stop], row, evicted)",
            "evicted = evicted and evicted + self.tree.page_size\n"
            "for stop in (evicted, len(tokens)):\n"
            "    if last.end < stop:\n"
            "        last = self._append(last, tokens[last.end : stop], row, evicted)",
        ),
        events=("evict_window", "checkpoint"),
    ),
    engine(
        "insert-leaf-unsplit",
        "a leaf that begins before the evicted boundary becomes a tombstone as a whole",
        swap("insertion", "Insertion.insert", "(evicted, len(tokens))", "(len(tokens),)"),
        events=("evict_window", "checkpoint"),
    ),
    engine(
        "recovery-frees-through-stale-mapping",
        "a recovery frees the request's full slots while they still map to the SWA slots that the tombstone just got "
        "(SGLang PRs 27586, 27789)",
        drop("insertion", "Insertion._recover", "self.allocator.set_mapping(slots, [0] * len(slots))"),
        events=("evict_window", "checkpoint"),
    ),
    engine(
        "recovery-keeps-row",
        "a request goes on with the full slots that it lost to a recovery",
        drop("insertion", "Insertion._recover", "own.copy_(own.new_tensor(full))"),
        events=("evict_window", "checkpoint"),
    ),
    engine(
        "recovery-forgets-value",
        "a recovered tombstone is mapped and still counts as a tombstone",
        drop("insertion", "Insertion._recover", "node.swa = swa"),
        events=("evict_window", "checkpoint"),
    ),
    engine(
        "recovery-of-wrong-half",
        "the part of a tombstone before the request's window is recovered, and the part in it is not",
        swap(
            "insertion",
            "Insertion._overlap",
            "node.swa is None and evicted <= node.start",
            "node.swa is None and evicted >= node.end",
        ),
        events=("evict_window", "checkpoint"),
    ),
)
