"""Every mutant by name. Each breaks the target the way real code broke, and shows on legal tapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from staleloc.sim.mutate import Edit, Mutant

__all__ = ["MUTANTS"]

_INVALIDATE = "self.policy.invalidate()"

_MUTATION_SITES = {
    "alloc": "locs freed and handed out again while a forward is open keep the translation made in between",
    "alloc_extend": "a page freed and handed out again while a forward is open keeps its old translation",
    "alloc_decode": "a page that a decode step takes while a forward is open keeps its old translation",
    "alloc_extend_swa_tail": "a page handed out again by a tail preallocation keeps its old translation",
    "free": "a finished request's locs still translate to the SWA slots they had",
    "free_swa": "a window evicted between two layers is still written and read through the cache",
    "set_mapping": "SWA slots that a load-back gives to unmapped tokens between two layers are not seen",
    "register_mapping": "a mapping that replaces the table between two layers is not seen (SGLang PR 25889)",
    "clear": "a flushed cache still answers with the slots it had",
}
"""Method of `SwaAllocator` -> what a policy's cache does wrong without its invalidation."""

_CACHES = {"memo": "hybrid", "first_layer": "dsv4"}
"""Policies whose answers outlive a call -> their pool."""


def _drop(module: str, scope: str, old: str) -> Edit:
    return Edit(module, scope, "drop", old)


def _swap(module: str, scope: str, old: str, new: str) -> Edit:
    return Edit(module, scope, "replace", old, new)


def _before(module: str, scope: str, old: str, new: str) -> Edit:
    return Edit(module, scope, "before", old, new)


def _after(module: str, scope: str, old: str, new: str) -> Edit:
    return Edit(module, scope, "after", old, new)


def _forgotten_invalidations() -> Iterator[Mutant]:
    for policy, pool in _CACHES.items():
        prefix = policy.replace("_", "-")
        for site, story in _MUTATION_SITES.items():
            edits = (_drop("swa", f"SwaAllocator.{site}", _INVALIDATE),)
            kinds = ("free",) if site.startswith("alloc") else ()
            name = f"{prefix}-drop-invalidate-{site.replace('_', '-')}"
            yield Mutant(name, "builtin", edits, pool, (policy,), story, (site, *kinds, "translate"))
        yield Mutant(
            f"{prefix}-drop-invalidate-begin-forward",
            "builtin",
            (_drop("policies", f"{'Memo' if policy == 'memo' else 'FirstLayer'}.begin_forward", "self.invalidate()"),),
            pool,
            (policy,),
            "the answer for the batch before is served to a batch in the same memory (SGLang PRs 25824, 26931)",
            ("translate",),
        )


def _memo(name: str, story: str, *edits: Edit) -> Mutant:
    return Mutant(f"memo-{name}", "builtin", edits, "hybrid", ("memo",), story, ("translate",))


def _side_channel(name: str, story: str, *edits: Edit, events: tuple[str, ...] = ()) -> Mutant:
    return Mutant(f"side-channel-{name}", "builtin", edits, "hybrid", ("side_channel",), story, events)


def _first_layer(name: str, story: str, *edits: Edit, events: tuple[str, ...] = ()) -> Mutant:
    return Mutant(f"first-layer-{name}", "builtin", edits, "dsv4", ("first_layer",), story, events)


def _any_policy(name: str, story: str, *edits: Edit, events: tuple[str, ...] = ()) -> Mutant:
    return Mutant(name, "builtin", edits, "hybrid", ("uncached", "side_channel", "memo"), story, events)


_KEYS: tuple[Mutant, ...] = (
    _memo(
        "key-storage-base",
        "two parts of one buffer share an answer: the key is the storage's address, not the tensor's",
        _swap("policies", "Memo._key_of", "locs.data_ptr()", "locs.untyped_storage().data_ptr()"),
    ),
    _memo(
        "key-without-numel",
        "the front of the batch's tensor gets the answer for all of it: the key is the address alone",
        _swap("policies", "Memo._key_of", "locs.numel()", "0"),
    ),
    _memo(
        "key-length-only",
        "every tensor as long as the last one gets its answer, as with addresses that an allocator hands "
        "out again (99 of 100 fresh tensors, measured on PR 25824's key)",
        _swap("policies", "Memo._key_of", "locs.data_ptr()", "0"),
    ),
    _side_channel(
        "keeps-previous",
        "a batch without a translation of its own writes to the slots of the batch before (review of SGLang PR 24138)",
        _drop("policies", "SideChannel.begin_forward", "self.swa_loc = None"),
    ),
    _side_channel(
        "sliced-from-front",
        "a part of the batch is answered from the front of the buffer, whatever part it is (SGLang PR 32555)",
        _swap("policies", "SideChannel.translate_part", "self.swa_loc[start:stop]", "self.swa_loc[:stop - start]"),
        events=("translate",),
    ),
    _side_channel(
        "answers-everything",
        "once set, the batch's translation overrides that of every other tensor (SGLang PRs 24138, 25824)",
        _before(
            "policies",
            "SideChannel",
            "name = 'side_channel'",
            "def lookup(self, locs): return self.gather(locs) if self.swa_loc is None else self.swa_loc",
        ),
        events=("translate",),
    ),
    _first_layer(
        "start-layer-only",
        "the answer is made anew at layer 0 alone, and the first SWA layer comes later (review of SGLang PR 26931)",
        _swap("policies", "FirstLayer.translate", "layer_id == self.first_swa_layer", "layer_id == 0"),
        _drop("policies", "FirstLayer.begin_forward", "self.invalidate()"),
    ),
    _first_layer(
        "replaced-mapping-only",
        "a replaced mapping invalidates, a mapping changed in place does not (SGLang 0.5.12.post1, after PR 25889)",
        *(_drop("swa", f"SwaAllocator.{site}", _INVALIDATE) for site in _MUTATION_SITES if site != "register_mapping"),
    ),
    _first_layer(
        "answers-everything",
        "the cached loc has no key, so any other tensor gets the running batch's answer (SGLang PR 25889)",
        _before(
            "policies",
            "FirstLayer",
            "name = 'first_layer'",
            "def lookup(self, locs): return self.gather(locs) if self.cached_loc is None else self.cached_loc",
        ),
        events=("translate",),
    ),
)

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

_ALLOCATION: tuple[Mutant, ...] = (
    _any_policy(
        "alloc-hands-out-padding",
        "page 0, where rows of unmapped tokens go, is handed out like any other",
        _swap("slots", "SlotAllocator.clear", "range(1, self._pages + 1)", "range(self._pages)"),
    ),
    _any_policy(
        "alloc-refusal-keeps-slots",
        "an allocation refused for want of SWA slots keeps the full slots it took first",
        _before("swa", "SwaAllocator.alloc", "return None", "self.full.take(count)"),
    ),
    _any_policy(
        "extend-refusal-keeps-pages",
        "an extension refused for want of SWA pages keeps the full pages it took first (SGLang's alloc_decode "
        "asks one pool after the other)",
        _before("swa", "SwaAllocator.alloc_extend", "return None", "self.full.take(pages)"),
    ),
    _any_policy(
        "extend-runs-past-page",
        "a request that ends on a page boundary goes on into the next page, whoever owns it",
        _swap(
            "slots",
            "SlotAllocator.alloc_extend",
            "-prefix % self.page_size",
            "self.page_size - prefix % self.page_size if prefix else 0",
        ),
    ),
    _any_policy(
        "decode-follows-full-loc",
        "a decode step's SWA slot follows the last token's full loc instead of its SWA loc",
        _swap(
            "swa",
            "SwaAllocator.alloc_decode",
            "self.swa.alloc_decode(seq_lens, swa_last_locs)",
            "self.swa.alloc_decode(seq_lens, last_locs)",
        ),
        events=("alloc_decode",),
    ),
    _any_policy(
        "tail-keeps-former-owner",
        "a tail preallocation leaves on its head the entries of a draft that was rolled back without its mapping "
        "(SGLang PR 25805 with EAGLE v1's restore_state)",
        _drop("swa", "SwaAllocator.restore", "self.full_to_swa_index_mapping.copy_(state.mapping)"),
        _swap("swa", "SwaAllocator.alloc_extend_swa_tail", "None if swa_locs is None else head + swa_locs", "swa_locs"),
        _after(
            "swa",
            "SwaAllocator._pair",
            "assert swa_locs is not None",
            "tail = locs[len(locs) - len(swa_locs):]\nself._map(tail, swa_locs)\nreturn locs",
        ),
        # Entries that a restore leaves behind are harmless as long as allocations write over them.
        _before(
            "target",
            "BuiltinTarget",
            "_pool: KvPool",
            "profiles = (Profile(**{**vars(profiles[0]), 'restores_mapping': False}),)",
        ),
        events=("backup", "restore", "alloc_extend_swa_tail"),
    ),
    _any_policy(
        "sort-loses-free-list",
        "merging released pages forgets the pages still in the free list",
        _swap(
            "slots", "SlotAllocator._merge_released", "sorted(self._free + self._released)", "sorted(self._released)"
        ),
        events=("free",),
    ),
    _any_policy(
        "sort-keeps-released",
        "merged pages stay among the released ones and are merged again",
        _drop("slots", "SlotAllocator._merge_released", "self._released = []"),
        events=("free",),
    ),
    _any_policy(
        "backup-shares-free-list",
        "a backup holds the free list itself, which the draft then takes pages from",
        _swap(
            "slots", "SlotAllocator.backup", "(list(self._free), list(self._released))", "(self._free, self._released)"
        ),
        events=("backup", "restore"),
    ),
    _any_policy(
        "restore-without-mapping",
        "a rolled-back draft's locs stay mapped (SGLang's restore_state up to 0.5.16, called by EAGLE v1)",
        _drop("swa", "SwaAllocator.restore", "self.full_to_swa_index_mapping.copy_(state.mapping)"),
        events=("backup", "restore"),
    ),
)

_RELEASE: tuple[Mutant, ...] = (
    _any_policy(
        "free-leaves-entries",
        "freed locs stay mapped, and a later free or recovery reads whose slots they were (SGLang PRs 27586, 27789)",
        _swap("swa", "SwaAllocator.free", "swa_pages = self._unmap(locs)", _UNMAP_WITHOUT_CLEARING),
        events=("free",),
    ),
    _any_policy(
        "free-repeats-page",
        "a page is put on the free list once for each of its tokens",
        _swap("swa", "SwaAllocator.free", "self.full.pages_of(locs)", "[loc // self.page_size for loc in locs]"),
        events=("free",),
    ),
    _any_policy(
        "free-swa-clears-given-locs",
        "evicting a part of a page releases all of it but unmaps that part alone (SGLang PR 27779)",
        _swap(
            "swa",
            "SwaAllocator._unmap",
            "entries.index_fill_(0, full_pages, 0)",
            "self.full_to_swa_index_mapping.index_fill_(0, _index(locs), 0)",
        ),
        events=("free_swa",),
    ),
    _any_policy(
        "free-releases-padding",
        "freeing a token without an SWA slot releases the padding page (guarded in SGLang since 0.5.19)",
        _swap(
            "swa",
            "SwaAllocator._unmap",
            "self.swa.pages_of(swa_loc for swa_loc in swa_locs if swa_loc > 0)",
            "self.swa.pages_of(swa_locs)",
        ),
        events=("free",),
    ),
    _any_policy(
        "group-end-frees-twice",
        "ending a free group that has ended frees its slots again (SGLang PR 36739)",
        _swap(
            "swa",
            "SwaAllocator.free_group_end",
            "if self._group is None: return",
            "if self._group is None: self._group = getattr(self, '_ended', ([], []))",
        ),
        _before("swa", "SwaAllocator.free_group_end", "self._group = None", "self._ended = self._group"),
        events=("free_group_begin", "free", "free_group_end"),
    ),
    _any_policy(
        "group-resolves-late",
        "an eviction inside a free group reads the mapping at the group's end, when a recovery may have "
        "re-mapped the tokens (SGLang PR 36081)",
        _before("swa", "SwaAllocator.free_swa", "swa_pages = self._unmap(locs)", _QUEUE_LOCS),
        _after("swa", "SwaAllocator.free_group_end", "self._release(full_pages, swa_pages)", _RESOLVE_QUEUED_LOCS),
        events=("free_group_begin", "free_swa", "set_mapping", "free_group_end"),
    ),
    _any_policy(
        "clear-forgets-released",
        "flushing leaves released pages in their list, so that each is free twice",
        _drop("slots", "SlotAllocator.clear", "self._released = []"),
        events=("free", "clear"),
    ),
    _any_policy(
        "clear-keeps-mapping",
        "flushing frees every slot and leaves every loc mapped",
        _drop("swa", "SwaAllocator.clear", "self.full_to_swa_index_mapping[:-1].zero_()"),
        events=("clear",),
    ),
    _any_policy(
        "clear-zeroes-sentinel",
        "after a flush the loc -1 translates to the padding slot instead of -1",
        _swap("swa", "SwaAllocator.clear", "self.full_to_swa_index_mapping[:-1]", "self.full_to_swa_index_mapping"),
        events=("clear", "translate"),
    ),
    _any_policy(
        "register-mapping-misses-pool",
        "the allocator keeps the new table and the pool goes on translating with the old one",
        _drop("swa", "SwaAllocator.register_mapping", "self.pool.register_mapping(mapping)"),
        events=("register_mapping",),
    ),
    _any_policy(
        "register-mapping-leaks",
        "the SWA slots that a replaced mapping no longer names are never released",
        _drop(
            "target",
            "BuiltinTarget.register_mapping",
            "self._allocator.release_swa([swa_loc for swa_loc in old if swa_loc > 0])",
        ),
        events=("register_mapping",),
    ),
)

_CPU_COPY = ("cpu_copy", "load_cpu_copy")

_CONTENTS: tuple[Mutant, ...] = (
    _any_policy(
        "cpu-copy-without-mask",
        "an evicted token's row is saved from the padding slot and loaded into a fresh slot (SGLang PRs 24036, 24857)",
        _swap("pools", "HybridPool.get_cpu_copy", "swa_locs > 0", "swa_locs >= 0"),
        events=_CPU_COPY,
    ),
    _any_policy(
        "cpu-load-old-mask-only",
        "a load brings every row that the copy holds, although some tokens have no SWA slot any more",
        _swap("pools", "HybridPool.load_cpu_copy", "keep_rows(copy.swa, mapped[copy.swa_mask])", "copy.swa"),
        events=(*_CPU_COPY, "free_swa"),
    ),
    _any_policy(
        "cpu-load-forgets-positions",
        "a load packs the rows it has into the first tokens that are mapped now",
        _swap(
            "pools",
            "HybridPool.load_cpu_copy",
            "swa_locs[copy.swa_mask & mapped]",
            "swa_locs[mapped][: int((copy.swa_mask & mapped).sum())]",
        ),
        events=_CPU_COPY,
    ),
    _any_policy(
        "cpu-load-to-old-slots",
        "a load goes to the SWA slots that the rows came from: the copy keeps their translation",
        _after(
            "pools",
            "HybridPool.get_cpu_copy",
            "held = swa_locs > 0",
            "self._copied_from = {**getattr(self, '_copied_from', {}), held: swa_locs}",
        ),
        _swap("pools", "HybridPool.load_cpu_copy", "self.gather(locs)", "self._copied_from[copy.swa_mask]"),
        events=_CPU_COPY,
    ),
    _any_policy(
        "cpu-load-loses-last-chunk",
        "the rows after the last whole chunk are not loaded",
        _swap(
            "cpu_copy",
            "copy_in",
            "zip(torch.split(locs, CHUNK_ROWS), chunks, strict=True)",
            "list(zip(torch.split(locs, CHUNK_ROWS), chunks, strict=True))[: len(locs) // CHUNK_ROWS]",
        ),
        events=_CPU_COPY,
    ),
    _any_policy(
        "cpu-load-filter-drops-values",
        "the row filter keeps the first tensor of a chunk and drops the others (SGLang PR 35888)",
        _before(
            "cpu_copy",
            "keep_rows",
            "return list(zip(*kept, strict=True))",
            "if not mask.all(): return [chunk[:1] for chunk in zip(*kept, strict=True)]",
        ),
        _swap("cpu_copy", "copy_in", "zip(buffers, chunk, strict=True)", "zip(buffers, chunk)"),
        events=(*_CPU_COPY, "free_swa"),
    ),
    _any_policy(
        "move-forgets-values",
        "accepted tokens move with their SWA keys and without their SWA values",
        _swap("pools", "HybridPool.move_kv_cache", "self.buffers_of[SWA]", "self.buffers_of[SWA][:1]"),
        events=("move",),
    ),
    _any_policy(
        "move-in-full-pool-only",
        "accepted tokens move in full layers and stay where they were in SWA layers",
        _drop("pools", "HybridPool.move_kv_cache", "buffer[:, swa_targets] = buffer[:, swa_sources]"),
        events=("move",),
    ),
)

_MODERN = "sglang.srt.mem_cache.allocator.swa"
_POOL = "sglang.srt.mem_cache.swa_memory_pool"


def _sglang(name: str, releases: str, story: str, *edits: Edit, events: tuple[str, ...] = ()) -> Mutant:
    return Mutant(f"sglang-{name}", "sglang", edits, "hybrid", ("native",), story, events, releases)


_SGLANG: tuple[Mutant, ...] = (
    _sglang(
        "free-swa-clears-given-locs",
        ">=0.5.14,<0.5.19",
        "takes back the fix of PR 27779: evicting a part of a page unmaps that part alone",
        _swap(
            _MODERN,
            "SWATokenToKVPoolAllocator.free_swa",
            "self.full_to_swa_index_mapping[mapping_indices] = 0",
            "self.full_to_swa_index_mapping[free_index] = 0",
        ),
        events=("free_swa",),
    ),
    _sglang(
        "tail-keeps-former-owner",
        ">=0.5.14,<0.5.17",
        "takes back the fix of PR 25805 in releases whose restore_state leaves the mapping behind",
        _before(
            _MODERN,
            "SWATokenToKVPoolAllocator.alloc_extend_swa_tail",
            "self.set_full_to_swa_mapping(alloc_full_indices[-swa_tail_len:], alloc_swa_indices)",
            "extend_num_tokens = swa_tail_len",
        ),
        events=("backup", "restore", "alloc_extend_swa_tail"),
    ),
    _sglang(
        "clear-keeps-mapping",
        ">=0.5.13",
        "flushing frees every slot and leaves every loc mapped",
        _drop(_MODERN, "SWATokenToKVPoolAllocator.clear", "self.full_to_swa_index_mapping[:-1].fill_(0)"),
        events=("clear",),
    ),
    _sglang(
        "cpu-copy-without-mask",
        ">=0.5.12",
        "takes back the fix of PR 24036: an evicted token's row is saved from the padding slot",
        _swap(_POOL, "SWAKVPool.get_cpu_copy", "swa_indices > 0", "swa_indices >= 0"),
        events=_CPU_COPY,
    ),
    _sglang(
        "move-in-full-pool-only",
        ">=0.5.12",
        "accepted tokens move in full layers and stay where they were in SWA layers",
        _drop(_POOL, "SWAKVPool.move_kv_cache", "self.swa_kv_pool.move_kv_cache(tgt_loc_swa, src_loc_swa)"),
        events=("move",),
    ),
)


def _by_name(mutants: Iterable[Mutant]) -> dict[str, Mutant]:
    named: dict[str, Mutant] = {}
    for mutant in mutants:
        assert mutant.name not in named, f"two mutants are called {mutant.name}"
        named[mutant.name] = mutant
    return named


MUTANTS: dict[str, Mutant] = _by_name(
    (*_forgotten_invalidations(), *_KEYS, *_ALLOCATION, *_RELEASE, *_CONTENTS, *_SGLANG)
)
"""Every mutant by its name."""
