"""Mutants of SGLang's own allocators: free lists and their views, ledgers, mapping entries, free groups."""

from __future__ import annotations

from .patches import mutants
from .transform import Mutant

__all__ = ["SGLANG_GROUPS", "SGLANG_POOLS"]

_ALLOCATOR = "sglang.srt.mem_cache.allocator"
_MODULES: dict[str, tuple[str, ...]] = {
    "base": (f"{_ALLOCATOR}.base",),
    "token": (f"{_ALLOCATOR}.token",),
    "paged": (f"{_ALLOCATOR}.paged",),
    "swa": (f"{_ALLOCATOR}.swa",),
}

SGLANG_POOLS = mutants(
    Mutant("sglang-pool-", "sglang", (), "hybrid", ("native",), "", releases=">=0.5.23"),
    """
sorts-under-views [alloc free]
    a free list is sorted in place, and the slots that were given out before are views of it
    @@ token TokenToKVPoolAllocator.alloc
    + if self.free_pages._base is not None:
    +     self.free_pages._base.copy_(torch.sort(self.free_pages._base)[0])
      select_index = self.free_pages[:need_size]
counts-staged-twice [free]
    pages that wait to be sorted are counted twice
    @@ paged PagedTokenToKVPoolAllocator._release_page_ids
    - self.num_staged_pages += sum(ids.numel() for ids in page_ids)
    + self.num_staged_pages += 2 * sum(ids.numel() for ids in page_ids)
merges-staged-again [alloc_extend free]
    pages that were sorted into the free list are still among those that wait for it
    @@ paged PagedTokenToKVPoolAllocator.merge_and_sort_free
    - self.staged_pages = []
clears-given-locs [free_swa]
    evicting a part of a page frees its SWA page, and unmaps that part alone (SGLang PR 27779)
    @@ swa SWATokenToKVPoolAllocator.free_swa
    - self.clear_full_to_swa_mapping(mapping_indices)
    + self.clear_full_to_swa_mapping(free_index)
clears-first-of-page [free_swa]
    the SWA pages of a segment are freed, and only the first entry of each is cleared
    @@ swa SWATokenToKVPoolAllocator._free_swa_pages_none_cuda
    - self.clear_full_to_swa_mapping(mapping_indices)
    + self.clear_full_to_swa_mapping(full_page_representatives)
releases-padding [free_swa free]
    the SWA slot of tokens that have none is freed: the padding slot
    @@ swa SWATokenToKVPoolAllocator._release_swa
    - swa_indices > 0
    + swa_indices >= 0
decode-maps-one-short [alloc_decode]
    the last request of a decode step gets an SWA slot, and its full loc is not mapped to it
    @@ swa SWATokenToKVPoolAllocator.alloc_decode
    - self.full_to_swa_index_mapping[alloc_full_indices] = alloc_swa_indices
    + self.full_to_swa_index_mapping[alloc_full_indices[:-1]] = alloc_swa_indices[:-1]
group-keeps-views [free free_group_begin]
    a group holds back views of rows that their owner writes again before it ends
    @@ base BaseTokenToKVPoolAllocator._copy_for_free_group
    - free_index.clone()
    + free_index
group-frees-last-only [free free_group_begin]
    the end of a group frees what was given to it last
    @@ base BaseTokenToKVPoolAllocator.free_group_end
    - torch.cat(pending)
    + pending[-1]
""",
    _MODULES,
)

SGLANG_GROUPS = mutants(
    Mutant(
        *("sglang-group-", "sglang", (), "hybrid", ("native", "python-core"), ""),
        events=("results",),
        releases=">=0.5.23",
        level="engine",
    ),
    """
frees-last-only
    the end of a group frees what the last request gave to it
    @@ paged PagedTokenToKVPoolAllocator.free_group_end
    - torch.cat(self.free_page_ids_group)
    + self.free_page_ids_group[-1]
freed-again
    the pages of one batch's results are freed again by those of the next batch
    @@ paged PagedTokenToKVPoolAllocator.free_group_begin
    - self.free_page_ids_group = []
    @@ paged PagedTokenToKVPoolAllocator.free_group_end
    - self.free_page_ids_group = []
""",
    _MODULES,
)
