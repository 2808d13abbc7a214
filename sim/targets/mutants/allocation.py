"""Mutants of the allocators: handing slots out, taking them back, the mapping in between."""

from __future__ import annotations

from .edits import after, any_policy, before, drop, swap
from .transform import Mutant

__all__ = ["ALLOCATION", "RELEASE"]

_UNMAP_WITHOUT_CLEARING = """
entries = self.full_to_swa_index_mapping[_index(locs)].tolist()
swa_pages = self.swa.pages_of(swa_loc for swa_loc in entries if swa_loc > 0)
"""

_QUEUE_LOCS = """
if self._group is not None:
    self._late = [*getattr(self, "_late", []), *locs]
    return
"""

_RESOLVE_QUEUED_LOCS = """
late, self._late = getattr(self, "_late", []), []
self._release([], self._unmap(late))
"""

ALLOCATION: tuple[Mutant, ...] = (
    any_policy(
        "alloc-hands-out-padding",
        "page 0, where rows of unmapped tokens go, is handed out like any other",
        swap("slots", "SlotAllocator.clear", "range(1, self._pages + 1)", "range(self._pages)"),
    ),
    any_policy(
        "available-forgets-released",
        "the size that schedulers ask for leaves out the pages that wait to be sorted in",
        swap("slots", "SlotAllocator.available_size", "self.available_pages()", "len(self._free)"),
    ),
    any_policy(
        "alloc-refusal-keeps-slots",
        "an allocation refused for want of SWA slots keeps the full slots it took first",
        before("swa", "SwaAllocator.alloc", "return None", "self.full.take(count)"),
    ),
    any_policy(
        "extend-refusal-keeps-pages",
        "an extension refused for want of SWA pages keeps the full pages it took first (SGLang's alloc_decode "
        "asks one pool after the other)",
        before("swa", "SwaAllocator.alloc_extend", "return None", "self.full.take(pages)"),
    ),
    any_policy(
        "extend-runs-past-page",
        "a request that ends on a page boundary goes on into the next page, whoever owns it",
        swap(
            "slots",
            "SlotAllocator.alloc_extend",
            "-prefix % self.page_size",
            "self.page_size - prefix % self.page_size if prefix else 0",
        ),
    ),
    any_policy(
        "decode-follows-full-loc",
        "a decode step's SWA slot follows the last token's full loc instead of its SWA loc",
        swap(
            "swa",
            "SwaAllocator.alloc_decode",
            "self.swa.alloc_decode(seq_lens, swa_last_locs)",
            "self.swa.alloc_decode(seq_lens, last_locs)",
        ),
        events=("alloc_decode",),
    ),
    any_policy(
        "tail-keeps-former-owner",
        "a tail preallocation leaves on its head the entries of a draft that was rolled back without its mapping "
        "(SGLang PR 25805 with EAGLE v1's restore_state)",
        drop("swa", "SwaAllocator.restore", "self.full_to_swa_index_mapping.copy_(state.mapping)"),
        swap("swa", "SwaAllocator.alloc_extend_swa_tail", "None if swa_locs is None else head + swa_locs", "swa_locs"),
        after(
            "swa",
            "SwaAllocator._pair",
            "assert swa_locs is not None",
            "tail = locs[len(locs) - len(swa_locs):]\nself._map(tail, swa_locs)\nreturn locs",
        ),
        # Entries that a restore leaves behind are harmless as long as allocations write over them.
        before(
            "target",
            "BuiltinTarget",
            "_pool: KvPool",
            "profiles = (Profile(**{**vars(profiles[0]), 'restores_mapping': False}),)",
        ),
        events=("backup", "restore", "alloc_extend_swa_tail"),
    ),
    any_policy(
        "sort-loses-free-list",
        "merging released pages forgets the pages still in the free list",
        swap("slots", "SlotAllocator._merge_released", "sorted(self._free + self._released)", "sorted(self._released)"),
        events=("free",),
    ),
    any_policy(
        "sort-keeps-released",
        "merged pages stay among the released ones and are merged again",
        drop("slots", "SlotAllocator._merge_released", "self._released = []"),
        events=("free",),
    ),
    any_policy(
        "backup-shares-free-list",
        "a backup holds the free list itself, which the draft then takes pages from",
        swap(
            "slots", "SlotAllocator.backup", "(list(self._free), list(self._released))", "(self._free, self._released)"
        ),
        events=("backup", "restore"),
    ),
    any_policy(
        "restore-without-mapping",
        "a rolled-back draft's locs stay mapped (SGLang's restore_state up to 0.5.16, called by EAGLE v1)",
        drop("swa", "SwaAllocator.restore", "self.full_to_swa_index_mapping.copy_(state.mapping)"),
        events=("backup", "restore"),
    ),
)

RELEASE: tuple[Mutant, ...] = (
    any_policy(
        "free-leaves-entries",
        "freed locs stay mapped, and a later free or recovery reads whose slots they were (SGLang PRs 27586, 27789)",
        swap("swa", "SwaAllocator.free", "swa_pages = self._unmap(locs)", _UNMAP_WITHOUT_CLEARING),
        events=("free",),
    ),
    any_policy(
        "free-repeats-page",
        "a page is put on the free list once for each of its tokens",
        swap("swa", "SwaAllocator.free", "self.full.pages_of(locs)", "[loc // self.page_size for loc in locs]"),
        events=("free",),
    ),
    any_policy(
        "free-swa-clears-given-locs",
        "evicting a part of a page releases all of it but unmaps that part alone (SGLang PR 27779)",
        swap(
            "swa",
            "SwaAllocator._unmap",
            "entries.index_fill_(0, full_pages, 0)",
            "self.full_to_swa_index_mapping.index_fill_(0, _index(locs), 0)",
        ),
        events=("free_swa",),
    ),
    any_policy(
        "free-releases-padding",
        "freeing a token without an SWA slot releases the padding page (guarded in SGLang since 0.5.19)",
        swap(
            "swa",
            "SwaAllocator._unmap",
            "self.swa.pages_of(swa_loc for swa_loc in swa_locs if swa_loc > 0)",
            "self.swa.pages_of(swa_locs)",
        ),
        events=("free",),
    ),
    any_policy(
        "group-end-frees-twice",
        "ending a free group that has ended frees its slots again (SGLang PR 36739)",
        swap(
            "swa",
            "SwaAllocator.free_group_end",
            "if self._group is None: return",
            "if self._group is None: self._group = getattr(self, '_ended', ([], []))",
        ),
        before("swa", "SwaAllocator.free_group_end", "self._group = None", "self._ended = self._group"),
        events=("free_group_begin", "free", "free_group_end"),
    ),
    any_policy(
        "group-resolves-late",
        "an eviction inside a free group reads the mapping at the group's end, when a recovery may have "
        "re-mapped the tokens (SGLang PR 36081)",
        before("swa", "SwaAllocator.free_swa", "swa_pages = self._unmap(locs)", _QUEUE_LOCS),
        after("swa", "SwaAllocator.free_group_end", "self._release(full_pages, swa_pages)", _RESOLVE_QUEUED_LOCS),
        events=("free_group_begin", "free_swa", "set_mapping", "free_group_end"),
    ),
    any_policy(
        "clear-forgets-released",
        "flushing leaves released pages in their list, so that each is free twice",
        drop("slots", "SlotAllocator.clear", "self._released = []"),
        events=("free", "clear"),
    ),
    any_policy(
        "clear-keeps-mapping",
        "flushing frees every slot and leaves every loc mapped",
        drop("swa", "SwaAllocator.clear", "self.full_to_swa_index_mapping[:-1].zero_()"),
        events=("clear",),
    ),
    any_policy(
        "clear-zeroes-sentinel",
        "after a flush the loc -1 translates to the padding slot instead of -1",
        swap("swa", "SwaAllocator.clear", "self.full_to_swa_index_mapping[:-1]", "self.full_to_swa_index_mapping"),
        events=("clear", "translate"),
    ),
    any_policy(
        "register-mapping-misses-pool",
        "the allocator keeps the new table and the pool goes on translating with the old one",
        drop("swa", "SwaAllocator.register_mapping", "self.pool.register_mapping(mapping)"),
        events=("register_mapping",),
    ),
    any_policy(
        "register-mapping-leaks",
        "the SWA slots that a replaced mapping no longer names are never released",
        drop(
            "target",
            "BuiltinTarget.register_mapping",
            "self._allocator.release_swa([swa_loc for swa_loc in old if swa_loc > 0])",
        ),
        events=("register_mapping",),
    ),
)
