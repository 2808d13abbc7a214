"""Mutants of single calls: the allocators, the pools and their CPU copies, the policies and their caches."""

from __future__ import annotations

from dataclasses import replace

from .patches import mutants
from .transform import Mutant

__all__ = ["ALLOCATION", "CONTENTS", "FORGOTTEN", "KEYS", "RELEASE"]

_ANY_POLICY = Mutant("", "builtin", (), "hybrid", ("uncached", "side_channel", "memo"), "")
_MEMO = Mutant("memo-", "builtin", (), "hybrid", ("memo",), "", ("translate",))
_SIDE_CHANNEL = Mutant("side-channel-", "builtin", (), "hybrid", ("side_channel",), "")
_FIRST_LAYER = Mutant("first-layer-", "builtin", (), "dsv4", ("first_layer",), "")

_CACHES = (replace(_MEMO, events=()), "Memo"), (_FIRST_LAYER, "FirstLayer")
"""What the policies have in common whose answers outlive a call, and their classes."""

_FORGOTTEN = """
drop-invalidate-alloc [alloc free translate]
    locs freed and handed out again while a forward is open keep the translation made in between
    @@ swa SwaAllocator.alloc
    - self.policy.invalidate()
drop-invalidate-alloc-extend [alloc_extend free translate]
    a page freed and handed out again while a forward is open keeps its old translation
    @@ swa SwaAllocator.alloc_extend
    - self.policy.invalidate()
drop-invalidate-alloc-decode [alloc_decode free translate]
    a page that a decode step takes while a forward is open keeps its old translation
    @@ swa SwaAllocator.alloc_decode
    - self.policy.invalidate()
drop-invalidate-alloc-extend-swa-tail [alloc_extend_swa_tail free translate]
    a page handed out again by a tail preallocation keeps its old translation
    @@ swa SwaAllocator.alloc_extend_swa_tail
    - self.policy.invalidate()
drop-invalidate-free [free translate]
    a finished request's locs still translate to the SWA slots they had
    @@ swa SwaAllocator.free
    - self.policy.invalidate()
drop-invalidate-free-swa [free_swa translate]
    a window evicted between two layers is still written and read through the cache
    @@ swa SwaAllocator.free_swa
    - self.policy.invalidate()
drop-invalidate-set-mapping [set_mapping translate]
    SWA slots that a load-back gives to unmapped tokens between two layers are not seen
    @@ swa SwaAllocator.set_mapping
    - self.policy.invalidate()
drop-invalidate-register-mapping [register_mapping translate]
    a mapping that replaces the table between two layers is not seen (SGLang PR 25889)
    @@ swa SwaAllocator.register_mapping
    - self.policy.invalidate()
drop-invalidate-clear [clear translate]
    after a flush the cached translation of the old slots is still used
    @@ swa SwaAllocator.clear
    - self.policy.invalidate()
no-invalidate-in-a-group [free_group_begin free_swa translate]
    a window evicted while a free group is open is still written and read through the cache
    @@ swa SwaAllocator.free_swa
    - self.policy.invalidate()
    + self._group is None and self.policy.invalidate()
drop-invalidate-begin-forward [translate]
    a batch in the same memory gets the translation of the previous batch (SGLang PRs 25824, 26931)
    @@ policies POLICY.begin_forward
    - self.invalidate()
"""

FORGOTTEN = tuple(it for base, policy in _CACHES for it in mutants(base, _FORGOTTEN.replace("POLICY", policy)))
"""An invalidation dropped, one place at a time."""

_MEMO_KEYS = mutants(
    _MEMO,
    """
key-storage-base
    two parts of one buffer share a translation: the key is the storage's address, not the tensor's
    @@ policies Memo._key_of
    - locs.data_ptr()
    + locs.untyped_storage().data_ptr()
key-without-numel
    the front of the batch's tensor gets the translation of the whole tensor: the key is the address alone
    @@ policies Memo._key_of
    - locs.numel()
    + 0
key-length-only
    every tensor as long as the last one gets its translation, as with addresses that an allocator hands out again (99
    of 100 fresh tensors, measured on PR 25824's key)
    @@ policies Memo._key_of
    - locs.data_ptr()
    + 0
""",
)

_SIDE_CHANNELS = mutants(
    _SIDE_CHANNEL,
    """
keeps-previous
    a batch without a translation of its own writes to the slots of the previous batch (review of SGLang PR 24138)
    @@ policies SideChannel.begin_forward
    - self.swa_loc = None
sliced-from-front [translate]
    any part of the batch is translated from the front of the buffer (SGLang PR 32555)
    @@ policies SideChannel.translate_part
    - self.swa_loc[start:stop]
    + self.swa_loc[:stop - start]
answers-everything [translate]
    once set, the batch's translation overrides that of every other tensor (SGLang PRs 24138, 25824)
    @@ policies SideChannel
    + def lookup(self, locs): return self.gather(locs) if self.swa_loc is None else self.swa_loc
      name = 'side_channel'
""",
)

_FIRST_LAYERS = mutants(
    _FIRST_LAYER,
    """
start-layer-only
    the translation is refreshed at layer 0 alone, and the first SWA layer comes later (review of SGLang PR 26931)
    @@ policies FirstLayer.translate
    - layer_id == self.first_swa_layer
    + layer_id == 0
    @@ policies FirstLayer.begin_forward
    - self.invalidate()
replaced-mapping-only
    a replaced mapping invalidates, a mapping changed in place does not (SGLang 0.5.12.post1, after PR 25889)
    @@ swa SwaAllocator.alloc
    - self.policy.invalidate()
    @@ swa SwaAllocator.alloc_extend
    - self.policy.invalidate()
    @@ swa SwaAllocator.alloc_decode
    - self.policy.invalidate()
    @@ swa SwaAllocator.alloc_extend_swa_tail
    - self.policy.invalidate()
    @@ swa SwaAllocator.free
    - self.policy.invalidate()
    @@ swa SwaAllocator.free_swa
    - self.policy.invalidate()
    @@ swa SwaAllocator.set_mapping
    - self.policy.invalidate()
    @@ swa SwaAllocator.clear
    - self.policy.invalidate()
answers-everything [translate]
    the cached loc has no key, so any other tensor gets the running batch's translation (SGLang PR 25889)
    @@ policies FirstLayer
    + def lookup(self, locs): return self.gather(locs) if self.cached_loc is None else self.cached_loc
      name = 'first_layer'
""",
)

KEYS = (*_MEMO_KEYS, *_SIDE_CHANNELS, *_FIRST_LAYERS)

ALLOCATION = mutants(
    _ANY_POLICY,
    """
alloc-hands-out-padding
    page 0, where rows of unmapped tokens go, is handed out like any other
    @@ slots SlotAllocator.clear
    - range(1, self._pages + 1)
    + range(self._pages)
available-forgets-released
    the available size omits released pages that are not merged yet
    @@ slots SlotAllocator.available_size
    - self.available_pages()
    + len(self._free)
alloc-refusal-keeps-slots
    an allocation refused for lack of SWA slots keeps the full slots it took first
    @@ swa SwaAllocator.alloc
    + self.full.take(count)
      return None
extend-refusal-keeps-pages
    an extension refused for lack of SWA pages keeps the full pages it took first (SGLang's alloc_decode asks one pool
    after the other)
    @@ swa SwaAllocator.alloc_extend
    + self.full.take(pages)
      return None
extend-runs-past-page
    a request that ends on a page boundary continues into the next page, even if another request owns it
    @@ slots SlotAllocator.alloc_extend
    - -prefix % self.page_size
    + self.page_size - prefix % self.page_size if prefix else 0
decode-follows-full-loc [alloc_decode]
    a decode step's SWA slot follows the last token's full loc instead of its SWA loc
    @@ swa SwaAllocator.alloc_decode
    - self.swa.alloc_decode(seq_lens, swa_last_locs)
    + self.swa.alloc_decode(seq_lens, last_locs)
tail-keeps-former-owner [backup restore alloc_extend_swa_tail]
    a tail preallocation leaves on its head the entries of a draft that was rolled back without its mapping (SGLang PR
    25805 with EAGLE v1's restore_state)
    @@ swa SwaAllocator.restore
    - self.full_to_swa_index_mapping.copy_(state.mapping)
    @@ swa SwaAllocator.alloc_extend_swa_tail
    - None if swa_locs is None else head + swa_locs
    + swa_locs
    @@ swa SwaAllocator._pair
      assert swa_locs is not None
    + tail = locs[len(locs) - len(swa_locs):]
    + self._map(tail, swa_locs)
    + return locs
    @@ target BuiltinTarget
    + profiles = (Profile(**{**vars(profiles[0]), 'restores_mapping': False}),)
      _pool: KvPool
sort-loses-free-list [free]
    merging released pages forgets the pages still in the free list
    @@ slots SlotAllocator._merge_released
    - sorted(self._free + self._released)
    + sorted(self._released)
sort-keeps-released [free]
    merged pages stay among the released ones and are merged again
    @@ slots SlotAllocator._merge_released
    - self._released = []
backup-shares-free-list [backup restore]
    a backup holds the free list itself, which the draft then takes pages from
    @@ slots SlotAllocator.backup
    - (list(self._free), list(self._released))
    + (self._free, self._released)
restore-without-mapping [backup restore]
    a rolled-back draft's locs stay mapped (SGLang's restore_state up to 0.5.16, called by EAGLE v1)
    @@ swa SwaAllocator.restore
    - self.full_to_swa_index_mapping.copy_(state.mapping)
""",
)

RELEASE = mutants(
    _ANY_POLICY,
    """
free-leaves-entries [free]
    freed locs stay mapped, and a later free or recovery uses their old SWA slots (SGLang PRs 27586, 27789)
    @@ swa SwaAllocator.free
    - swa_pages = self._unmap(locs)
    + entries = self.full_to_swa_index_mapping[_index(locs)].tolist()
    + swa_pages = self.swa.pages_of(swa_loc for swa_loc in entries if swa_loc > 0)
free-repeats-page [free]
    a page is put on the free list once for each of its tokens
    @@ swa SwaAllocator.free
    - self.full.pages_of(locs)
    + [loc // self.page_size for loc in locs]
free-swa-clears-given-locs [free_swa]
    evicting a part of a page releases all of it but unmaps that part alone (SGLang PR 27779)
    @@ swa SwaAllocator._unmap
    - entries.index_fill_(0, full_pages, 0)
    + self.full_to_swa_index_mapping.index_fill_(0, _index(locs), 0)
free-releases-padding [free]
    freeing a token without an SWA slot releases the padding page (guarded in SGLang since 0.5.19)
    @@ swa SwaAllocator._unmap
    - self.swa.pages_of(swa_loc for swa_loc in swa_locs if swa_loc > 0)
    + self.swa.pages_of(swa_locs)
group-end-frees-twice [free_group_begin free free_group_end]
    ending a free group that has ended frees its slots again (SGLang PR 36739)
    @@ swa SwaAllocator.free_group_end
    - if self._group is None: return
    + if self._group is None: self._group = getattr(self, '_ended', ([], []))
    @@ swa SwaAllocator.free_group_end
    + self._ended = self._group
      self._group = None
group-resolves-late [free_group_begin free_swa set_mapping free_group_end]
    an eviction inside a free group reads the mapping at the group's end, when a recovery may have re-mapped the tokens
    (SGLang PR 36081)
    @@ swa SwaAllocator.free_swa
    + if self._group is not None:
    +     self._late = [*getattr(self, "_late", []), *locs]
    +     return
      swa_pages = self._unmap(locs)
    @@ swa SwaAllocator.free_group_end
      self._release(full_pages, swa_pages)
    + late, self._late = getattr(self, "_late", []), []
    + self._release([], self._unmap(late))
clear-forgets-released [free clear]
    flushing leaves released pages in their list, so that each is free twice
    @@ slots SlotAllocator.clear
    - self._released = []
clear-keeps-mapping [clear]
    flushing frees every slot and leaves every loc mapped
    @@ swa SwaAllocator.clear
    - self.full_to_swa_index_mapping[:-1].zero_()
clear-zeroes-sentinel [clear translate]
    after a flush the loc -1 translates to the padding slot instead of -1
    @@ swa SwaAllocator.clear
    - self.full_to_swa_index_mapping[:-1]
    + self.full_to_swa_index_mapping
register-mapping-misses-pool [register_mapping]
    the allocator keeps the new table and the pool continues to translate with the old one
    @@ swa SwaAllocator.register_mapping
    - self.pool.register_mapping(mapping)
register-mapping-leaks [register_mapping]
    the SWA slots dropped from a replaced mapping are never freed
    @@ target BuiltinTarget.register_mapping
    - self._allocator.release_swa([swa_loc for swa_loc in old if swa_loc > 0])
""",
)

CONTENTS = mutants(
    _ANY_POLICY,
    """
cpu-copy-without-mask [cpu_copy load_cpu_copy]
    an evicted token's row is saved from the padding slot and loaded into a fresh slot (SGLang PRs 24036, 24857)
    @@ pools HybridPool.get_cpu_copy
    - swa_locs > 0
    + swa_locs >= 0
cpu-load-old-mask-only [cpu_copy load_cpu_copy free_swa]
    a load brings every row that the copy holds, although some tokens have no SWA slot any more
    @@ pools HybridPool.load_cpu_copy
    - keep_rows(copy.swa, mapped[copy.swa_mask])
    + copy.swa
cpu-load-forgets-positions [cpu_copy load_cpu_copy]
    a load packs the rows it has into the first tokens that are mapped now
    @@ pools HybridPool.load_cpu_copy
    - swa_locs[copy.swa_mask & mapped]
    + swa_locs[mapped][: int((copy.swa_mask & mapped).sum())]
cpu-load-to-old-slots [cpu_copy load_cpu_copy]
    a load goes to the SWA slots that the rows came from: the copy keeps their translation
    @@ pools HybridPool.get_cpu_copy
      held = swa_locs > 0
    + self._copied_from = {**getattr(self, '_copied_from', {}), held: swa_locs}
    @@ pools HybridPool.load_cpu_copy
    - self.gather(locs)
    + self._copied_from[copy.swa_mask]
cpu-load-loses-last-chunk [cpu_copy load_cpu_copy]
    the rows after the last whole chunk are not loaded
    @@ cpu_copy copy_in
    - zip(torch.split(locs, CHUNK_ROWS), chunks, strict=True)
    + list(zip(torch.split(locs, CHUNK_ROWS), chunks, strict=True))[: len(locs) // CHUNK_ROWS]
cpu-load-filter-drops-values [cpu_copy load_cpu_copy free_swa]
    the row filter keeps the first tensor of a chunk and drops the others (SGLang PR 35888)
    @@ cpu_copy keep_rows
    + if not mask.all(): return [chunk[:1] for chunk in zip(*kept, strict=True)]
      return list(zip(*kept, strict=True))
    @@ cpu_copy copy_in
    - zip(buffers, chunk, strict=True)
    + zip(buffers, chunk)
move-forgets-values [move]
    accepted tokens move with their SWA keys and without their SWA values
    @@ pools HybridPool.move_kv_cache
    - self.buffers_of[SWA]
    + self.buffers_of[SWA][:1]
move-in-full-pool-only [move]
    accepted tokens move in full layers and stay where they were in SWA layers
    @@ pools HybridPool.move_kv_cache
    - buffer[:, swa_targets] = buffer[:, swa_sources]
""",
)
