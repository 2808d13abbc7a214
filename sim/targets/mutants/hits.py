"""Mutants that lose hits and nothing else: every slot has its owner and every row its place, and a prefix is computed
again that was cached."""

from __future__ import annotations

from .patches import mutants
from .transform import Mutant

__all__ = ["LOST_HITS"]

_ENGINE = Mutant("", "builtin", (), "hybrid", ("uncached", "memo"), "", level="engine", checks=("hits",))

LOST_HITS = mutants(
    _ENGINE,
    """
match-stops-page-early
    a match leaves a whole page of the prompt to compute, and not just a token
    @@ engine BuiltinEngine.admit
    - self._aligned(len(keys))
    + self._aligned(max(0, len(keys) - self._config.page_size))
match-window-page-too-strict
    a match ends only where a page more than the window has SWA rows
    @@ tree PrefixTree.match
    - covered >= self.window
    + covered >= self.window + self.page_size
    @@ tree PrefixTree.match
    - covered_on_device >= self.window
    + covered_on_device >= self.window + self.page_size
match-drops-the-rest [checkpoint]
    a match that ends inside a node, or where a leaf begins, deletes what comes after it
    @@ engine BuiltinEngine.admit
      row = self._table.take()
    + for child in list(match.node.children.values()):
    +     if not child.children and not child.full_locks:
    +         self._slots.delete(child)
match-drops-host-copy [checkpoint]
    a match of a leaf that is on the device gives its copy on the host back
    @@ engine BuiltinEngine.admit
      row = self._table.take()
    + if match.node.full and match.node.swa and not match.node.full_locks and not match.node.children:
    +     self._slots.leave_host(match.node)
use-counts-once [evict admit]
    only the first use of a node counts, so a prefix that every request takes is evicted like one that none does
    @@ tree PrefixTree.touch
    - ancestor.used = now
    + ancestor.used = ancestor.used or now
insert-drops-last-page [checkpoint]
    a chunk of whole pages is inserted without its last page
    @@ engine BuiltinEngine.checkpoint
    - self._aligned(len(keys))
    + max(running.shared, self._aligned(len(keys) - 1))
finish-inserts-nothing [finish]
    a request that is done is not inserted, so what it decoded is lost (SGLang's `is_insert` for finished requests)
    @@ engine BuiltinEngine.finish
    - self.checkpoint(request)
evict-takes-twice [evict]
    an eviction frees twice as many full tokens as it was asked for
    @@ eviction Evictor.evict
    - full_gone < full
    + full_gone < 2 * full
evict-newest-first [evict]
    what was used last is evicted first
    @@ tree PrefixTree.oldest
    - (node.used, node.start)
    + (-node.used, node.start)
evict-drops-host-copy [evict]
    a leaf that leaves the device gives its copy on the host back, too
    @@ eviction Evictor._evict_leaf
    - node.host_full is not None
    + node.host_full is not None and node.children
write-back-not-tried [evict]
    a leaf without a backup is deleted under write_back, and the host never gets any
    @@ eviction Evictor._evict_leaf
    - self.tier.write_back and self.tier.lacks_backup(node) and self.tier.backup(node, demote=True)
    + False
load-back-not-tried [evict admit]
    what is on the host alone is computed again
    @@ engine BuiltinEngine.admit
    - self._load_back.load(lock, row)
    + None
backup-of-leaf-forgotten [checkpoint]
    an insertion copies to the host what lies before its last node, which gets no copy until something comes after it
    @@ hicache HostTier.inserted
    - reversed(list(node.path()))
    + reversed(list(node.path())[1:])
""",
)
