"""Mutants of a batch's results: what a free group holds back, and what its end releases."""

from __future__ import annotations

from .patches import mutants
from .transform import Mutant

__all__ = ["RESULTS"]

RESULTS = mutants(
    Mutant("results-", "builtin", (), "hybrid", ("uncached", "memo"), "", events=("results",), level="engine"),
    """
free-at-once-and-again
    slots that a group holds back are free at once, and again at its end, when others may have them
    @@ swa SwaAllocator._release
    - return
keep-last-free-only
    each free of a group replaces the one before it, and the slots of all but the last request leak
    @@ swa SwaAllocator._release
    - self._group[0].extend(full_pages)
    + self._group[0][:] = full_pages
keep-view-of-row
    a group holds back a view of a request's row, which names the tree's slots once the request is inserted (releases up
    to 0.5.17 keep views; ``_copy_for_free_group`` came with 0.5.18, as did the group of a prefill's results)
    @@ insertion Insertion._overlap
    - self.allocator.free(own.tolist())
    + if self.allocator._group is None:
    +     self.allocator.free(own.tolist())
    + else:
    +     vars(self.allocator).setdefault("views", []).append(own)
    @@ swa SwaAllocator.free_group_end
      self._release(full_pages, swa_pages)
    + for view in vars(self).pop("views", []):
    +     self.free(view.tolist())
keep-entries
    slots that are freed inside a group keep their entries, and nobody clears them at its end
    @@ swa SwaAllocator._unmap
    - entries.index_fill_(0, full_pages, 0)
    + if self._group is None:
    +     entries.index_fill_(0, full_pages, 0)
nested-group-drops-outer
    an abort opens a group of its own, and what the batch's group holds back is lost
    @@ swa SwaAllocator.free_group_begin
    - if self._group is None:
    -     self._group = ([], [])
    + self._group = ([], [])
    @@ engine BuiltinEngine.abort_result
    + self._allocator.free_group_begin()
      self.abort(request)
leave-group-open
    nobody ends the group after the last result, and no slot is free any more
    @@ engine BuiltinEngine.end_results
    - self._allocator.free_group_end()
end-full-pool-only
    the end of a group releases full slots and loses the SWA slots (SGLang PR 36081)
    @@ swa SwaAllocator.free_group_end
    - self._release(full_pages, swa_pages)
    + self._release(full_pages, [])
""",
)
