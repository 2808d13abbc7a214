"""Mutants of speculative decode: what a draft leaves behind, what becomes of accepted KV, and who frees the surplus."""

from __future__ import annotations

from .edits import drop, speculative, swap
from .transform import Edit, Mutant

__all__ = ["ACCEPTED", "DRAFTS", "RESERVES"]

_V1 = ("draft_tree",)
_V2 = ("prepare_decode", "draft_tree")
_STEP = ("draft_tree", "target_verify")


def _engine(scope: str, old: str, new: str) -> Edit:
    return swap("speculative", f"SpecEngine.{scope}", old, new)


_DROP_AT_END = "self._drop_surplus(self._requests[request], self._progress[request].committed)"
_FORGET_AT_END = "self._requests[request].length = self._progress[request].committed"

_MOVE = "self._hybrid().move_kv_cache(running.row[start:start + len(path)], sources)"

_MOVE_FROM_BEHIND = """
for at in reversed(range(len(path))):
    self._hybrid().move_kv_cache(running.row[start + at:start + at + 1], sources[at:at + 1])
"""

_RECORD_TOKENS = """
grown = self._extend(batch, stops)
for request in requests:
    running, exact = self._requests[request], self._progress[request].committed + self._layout.reserve
    running.length = min(running.length, exact)
return grown
"""

_VERIFY_IN_PLACE = """
for request in requests:
    self._requests[request].length += self._layout.nodes
return True
"""

DRAFTS: tuple[Mutant, ...] = (
    speculative(
        "restore-forgets-mapping",
        "a restore after a draft puts the free lists back and leaves the draft's entries in the mapping (SGLang up to "
        "0.5.16)",
        drop("swa", "SwaAllocator.restore", "self.full_to_swa_index_mapping.copy_(state.mapping)"),
        events=_V1,
    ),
    speculative(
        "restore-forgets-full-list",
        "a restore after a draft puts mapping and SWA slots back, and the draft's full slots are nobody's",
        drop("swa", "SwaAllocator.restore", "self.full.restore(state.full)"),
        events=_V1,
    ),
    speculative(
        "restore-forgets-swa-list",
        "a restore after a draft puts mapping and full slots back, and the draft's SWA slots are nobody's",
        drop("swa", "SwaAllocator.restore", "self.swa.restore(state.swa)"),
        events=_V1,
    ),
    speculative(
        "draft-after-restore",
        "the mapping is restored before the draft has run, and its SWA rows go to the dummy slot",
        swap(
            "speculative",
            "SpecEngine._take_draft",
            "self._extend(batch, stops)",
            "self._extend(batch, stops) and self._allocator.restore(self._before_draft)",
        ),
        events=_V1,
    ),
    speculative(
        "verifies-in-draft-slots",
        "a verification uses the slots that its draft had and has given back",
        swap(
            "speculative",
            "SpecEngine.begin_verify",
            "return self._extend(batch, [running.length + self._layout.nodes for running in batch])",
            _VERIFY_IN_PLACE,
        ),
        events=_STEP,
    ),
    speculative(
        "last-page-not-copied",
        "the page that a draft starts in is not copied for its second branch",
        drop("speculative", "SpecEngine._branches", "self._draft_pool.move_kv_cache(head, heads[0])"),
        events=_STEP,
    ),
    speculative(
        "draft-starts-at-committed",
        "a draft begins where the scheduler believes its request to be, over tokens accepted since",
        _engine("_branches", "self._progress[request].computed", "self._progress[request].committed"),
        events=_V2,
    ),
    speculative(
        "draft-keeps-translation",
        "a draft's next forward is served the translation of the one before it, which lay in the same buffer",
        drop("speculative", "SpecEngine.write_draft", "self._pool.policy.begin_forward()"),
        events=_STEP,
        policies=("memo",),
    ),
    speculative(
        "draft-translates-alone",
        "the draft's pool keeps a mapping of its own, a copy from when it was built",
        swap(
            "speculative",
            "SpecEngine.build",
            "self._draft_pool.register_mapping(self._pool.full_to_swa_index_mapping)",
            "self._draft_pool.register_mapping(self._pool.full_to_swa_index_mapping.clone())",
        ),
        events=_STEP,
    ),
)

ACCEPTED: tuple[Mutant, ...] = (
    speculative(
        "rejected-not-freed",
        "rejected tokens of a verification keep their slots, and the request forgets them",
        drop("speculative", "SpecEngine._keep", "self._allocator.free(rejected)"),
        events=_STEP,
    ),
    speculative(
        "rejected-pages-not-freed",
        "the same for whole pages",
        _engine("_keep", "self._drop_surplus(running, end)", "vars(running).update(length=end)"),
        events=_STEP,
    ),
    speculative(
        "accepted-row-not-written",
        "rejected slots are freed, and the row goes on naming the first slots of the verification",
        drop("speculative", "SpecEngine._keep", "running.row[start:end] = torch.tensor(kept)"),
        events=_STEP,
    ),
    speculative(
        "accepted-not-moved",
        "accepted nodes that are not the first ones stay where they were computed",
        drop("speculative", "SpecEngine._move", _MOVE),
        events=_STEP,
    ),
    speculative(
        "accepted-moved-from-behind",
        "accepted KV is moved one token after the other from the last, over sources that are still to be read",
        swap("speculative", "SpecEngine._move", _MOVE, _MOVE_FROM_BEHIND),
        events=_STEP,
    ),
    speculative(
        "accepted-moved-without-last",
        "the move counts the accepted draft tokens and not the bonus before them",
        swap(
            "speculative",
            "SpecEngine._move",
            _MOVE,
            "self._hybrid().move_kv_cache(running.row[start:start + len(path) - 1], sources[:-1])",
        ),
        events=_STEP,
    ),
    speculative(
        "accepted-moved-in-full-layers",
        "accepted KV moves in full layers and stays where it was in SWA layers",
        drop("pools", "HybridPool.move_kv_cache", "buffer[:, swa_targets] = buffer[:, swa_sources]"),
        events=_STEP,
    ),
    speculative(
        "bonus-counted-twice",
        "a commit counts the bonus that the accepted path has already",
        _engine("commit", "progress.uncommitted.pop(0)", "progress.uncommitted.pop(0) + 1"),
        events=("commit",),
    ),
)

RESERVES: tuple[Mutant, ...] = (
    speculative(
        "surplus-kept-at-finish",
        "a request that finishes gives back what is committed and no more (SGLang PR 19518)",
        _engine("finish", _DROP_AT_END, _FORGET_AT_END),
        events=(*_V2, "finish"),
    ),
    speculative(
        "surplus-kept-at-abort",
        "the same for a request that is aborted or retracted",
        _engine("abort", _DROP_AT_END, _FORGET_AT_END),
        events=(*_V2, "abort"),
    ),
    speculative(
        "surplus-from-inside-page",
        "the surplus is freed from the page on that holds the last accepted tokens",
        _engine("_drop_surplus", "self._layout.ceil(length)", "self._layout.floor(length)"),
        events=_STEP,
    ),
    speculative(
        "allocated-to-the-token",
        "whole pages are allocated and the length is recorded to the token (SGLang PR 31616)",
        swap("speculative", "SpecEngine._grow", "return self._extend(batch, stops)", _RECORD_TOKENS),
        events=_V2,
    ),
    speculative(
        "reserve-for-one-step",
        "the reserve is for one step, and the step before may not be committed",
        swap(
            "spec_layout",
            "Layout.reserve",
            "2 * max(self.stride(self.page_size - 1) * self.topk, self.nodes)",
            "max(self.stride(self.page_size - 1) * self.topk, self.nodes)",
        ),
        events=_V2,
    ),
    speculative(
        "window-evicted-beyond-committed",
        "window eviction goes by what is allocated, draft tokens included",
        _engine("_insertable", "self._progress[request].committed", "self._requests[request].length"),
        events=_V2,
    ),
    speculative(
        "draft-evicts-no-window",
        "one of the ways to prepare a step never evicts windows (SGLang PR 34924)",
        drop("speculative", "SpecEngine._take_draft", "self.evict_window(request)"),
        events=_V1,
    ),
    speculative(
        "keys-counted-as-tokens",
        "an insertion goes by the length in tokens, and its keys are bigrams, one fewer (SGLang PRs 19570, 24371)",
        swap("engine", "BuiltinEngine.checkpoint", "self._aligned(len(keys))", "self._aligned(running.length)"),
        events=("checkpoint",),
    ),
)
