"""Mutants of the policies: what a cached translation forgets, and what its key leaves out."""

from __future__ import annotations

from collections.abc import Iterator

from .edits import before, drop, first_layer, memo, side_channel, swap
from .transform import Mutant

__all__ = ["FORGOTTEN", "KEYS"]

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


def _forgotten_invalidations() -> Iterator[Mutant]:
    for policy, pool in _CACHES.items():
        prefix = policy.replace("_", "-")
        for site, story in _MUTATION_SITES.items():
            edits = (drop("swa", f"SwaAllocator.{site}", _INVALIDATE),)
            kinds = ("free",) if site.startswith("alloc") else ()
            name = f"{prefix}-drop-invalidate-{site.replace('_', '-')}"
            yield Mutant(name, "builtin", edits, pool, (policy,), story, (site, *kinds, "translate"))
        yield Mutant(
            f"{prefix}-no-invalidate-in-a-group",
            "builtin",
            (swap("swa", "SwaAllocator.free_swa", _INVALIDATE, f"self._group is None and {_INVALIDATE}"),),
            pool,
            (policy,),
            "a window evicted while a free group is open is still written and read through the cache",
            ("free_group_begin", "free_swa", "translate"),
        )
        yield Mutant(
            f"{prefix}-drop-invalidate-begin-forward",
            "builtin",
            (drop("policies", f"{'Memo' if policy == 'memo' else 'FirstLayer'}.begin_forward", "self.invalidate()"),),
            pool,
            (policy,),
            "the answer for the batch before is served to a batch in the same memory (SGLang PRs 25824, 26931)",
            ("translate",),
        )


FORGOTTEN: tuple[Mutant, ...] = tuple(_forgotten_invalidations())
"""An invalidation dropped, one place at a time."""

KEYS: tuple[Mutant, ...] = (
    memo(
        "key-storage-base",
        "two parts of one buffer share an answer: the key is the storage's address, not the tensor's",
        swap("policies", "Memo._key_of", "locs.data_ptr()", "locs.untyped_storage().data_ptr()"),
    ),
    memo(
        "key-without-numel",
        "the front of the batch's tensor gets the answer for all of it: the key is the address alone",
        swap("policies", "Memo._key_of", "locs.numel()", "0"),
    ),
    memo(
        "key-length-only",
        "every tensor as long as the last one gets its answer, as with addresses that an allocator hands "
        "out again (99 of 100 fresh tensors, measured on PR 25824's key)",
        swap("policies", "Memo._key_of", "locs.data_ptr()", "0"),
    ),
    side_channel(
        "keeps-previous",
        "a batch without a translation of its own writes to the slots of the batch before (review of SGLang PR 24138)",
        drop("policies", "SideChannel.begin_forward", "self.swa_loc = None"),
    ),
    side_channel(
        "sliced-from-front",
        "a part of the batch is answered from the front of the buffer, whatever part it is (SGLang PR 32555)",
        swap("policies", "SideChannel.translate_part", "self.swa_loc[start:stop]", "self.swa_loc[:stop - start]"),
        events=("translate",),
    ),
    side_channel(
        "answers-everything",
        "once set, the batch's translation overrides that of every other tensor (SGLang PRs 24138, 25824)",
        before(
            "policies",
            "SideChannel",
            "name = 'side_channel'",
            "def lookup(self, locs): return self.gather(locs) if self.swa_loc is None else self.swa_loc",
        ),
        events=("translate",),
    ),
    first_layer(
        "start-layer-only",
        "the answer is made anew at layer 0 alone, and the first SWA layer comes later (review of SGLang PR 26931)",
        swap("policies", "FirstLayer.translate", "layer_id == self.first_swa_layer", "layer_id == 0"),
        drop("policies", "FirstLayer.begin_forward", "self.invalidate()"),
    ),
    first_layer(
        "replaced-mapping-only",
        "a replaced mapping invalidates, a mapping changed in place does not (SGLang 0.5.12.post1, after PR 25889)",
        *(drop("swa", f"SwaAllocator.{site}", _INVALIDATE) for site in _MUTATION_SITES if site != "register_mapping"),
    ),
    first_layer(
        "answers-everything",
        "the cached loc has no key, so any other tensor gets the running batch's answer (SGLang PR 25889)",
        before(
            "policies",
            "FirstLayer",
            "name = 'first_layer'",
            "def lookup(self, locs): return self.gather(locs) if self.cached_loc is None else self.cached_loc",
        ),
        events=("translate",),
    ),
)
