"""Mutants of captured graphs and of speculative decode, and of both at once."""

from __future__ import annotations

from dataclasses import replace

from .patches import mutants
from .transform import Mutant

__all__ = ["ACCEPTED", "DRAFTS", "GRAPHS", "RESERVES", "SPEC_GRAPHS"]

_GRAPH = Mutant("graph-", "builtin", (), "hybrid", (), "", level="engine", features=("graphs",))
_SPEC = Mutant("spec-", "builtin", (), "hybrid", ("uncached", "memo"), "", level="engine", features=("spec",))

GRAPHS = mutants(
    _GRAPH,
    """
keeps-warm-up [capture replay] policies=memo
    a capture right after a warm-up finds the translation in the cache, so the graph contains none (SGLang PR 25824)
    @@ runners Runner.capture
    - self._start(size)
keeps-last-run [capture replay] policies=memo
    a capture finds the translation of the last batch in the cache: another runner had it in the same buffers
    @@ runners Runner.capture
    - self._warm_up(size)
    @@ runners Runner.capture
    - self._start(size)
keeps-padded-tail [capture replay] policies=uncached,side_channel,memo,per_forward
    a batch smaller than its graph leaves the locs of a larger one behind it, and padded rows go to live slots
    @@ graph_buffers GraphBuffers.fill
    - self.locs[count:size].zero_()
keeps-padded-translation [capture replay] policies=side_channel
    the padded tail of the full locs is reset and that of their translation is not (SGLang PR 24743)
    @@ policies SideChannel.plan
    - swa_locs.copy_(self.gather(locs))
    + batch = locs[: int((locs > 0).sum())]
    + swa_locs[: len(batch)].copy_(self.gather(batch))
binds-recreated-buffer [capture replay] policies=side_channel
    each run makes its translation in a new tensor, and the graph reads the one that it was captured with
    @@ policies SideChannel.plan
    - swa_locs.copy_(self.gather(locs))
    + swa_locs = self.gather(locs)
break-binds-capture [capture replay] policies=side_channel,per_forward
    code at a graph's breaks uses the metadata of the capture, which is recreated for each run (SGLang's breakable
    graphs keep arguments as they were at capture)
    @@ runners Breakable._replay
    - self.policy.set_swa_loc(captured.swa_loc[:count])
    + self.policy.set_swa_loc(vars(captured).setdefault("kept", captured.swa_loc.clone())[:count])
writes-whole-buffer [capture replay_chunk] policies=side_channel
    a precomputed translation is not cut to the batch, and rows of a larger batch are written again
    @@ runners Piecewise._replay
    - self._write(layer, captured.rows[layer], count)
    + self.policy.set_swa_loc(self.buffers.swa_locs[:size])
    + self._write(layer, captured.rows[layer], size)
draft-keeps-target [capture draft] policies=memo
    the draft's graph is captured with the target's translation in the cache both share, so it has none
    @@ speculative_runner Speculative.capture
    - self.draft.capture(size)
    + self.target._forward(size)
    + self.draft.captured[size] = self.draft._capture(size)
verify-keeps-draft [capture draft verify] policies=side_channel
    a verification writes to the slots of its draft, although its tokens were allocated again after a load-back in
    between
    @@ speculative_runner Speculative.run_verify
    - self.target.run(locs, tags)
    + size = self.target.fitting(len(locs))
    + self.target.buffers.fill(locs, tags, size)
    + self.target._replay(size, len(locs))
smaller-batch-from-end [capture replay] policies=uncached,side_channel,memo,per_forward
    a batch smaller than its graph is written to the end of a buffer that is read from its front (SGLang PR 32555)
    @@ graph_buffers GraphBuffers.fill
    - rows[:, :count]
    + rows[:, size - count : size]
""",
)

DRAFTS = mutants(
    _SPEC,
    """
restore-forgets-mapping [draft_tree]
    a restore after a draft restores the free lists and leaves the draft's entries in the mapping (SGLang up to 0.5.16)
    @@ swa SwaAllocator.restore
    - self.full_to_swa_index_mapping.copy_(state.mapping)
restore-forgets-full-list [draft_tree]
    a restore after a draft restores mapping and SWA slots, and the draft's full slots leak
    @@ swa SwaAllocator.restore
    - self.full.restore(state.full)
restore-forgets-swa-list [draft_tree]
    a restore after a draft restores mapping and full slots, and the draft's SWA slots leak
    @@ swa SwaAllocator.restore
    - self.swa.restore(state.swa)
draft-after-restore [draft_tree]
    the mapping is restored before the draft has run, and its SWA rows go to the dummy slot
    @@ speculative SpecEngine._take_draft
    - self._extend(batch, stops)
    + self._extend(batch, stops) and self._allocator.restore(self._before_draft)
verifies-in-draft-slots [draft_tree target_verify]
    a verification uses the slots of its draft after they were freed
    @@ speculative SpecEngine.begin_verify
    - return self._extend(batch, [running.length + self._layout.nodes for running in batch])
    + for request in requests:
    +     self._requests[request].length += self._layout.nodes
    + return True
last-page-not-copied [draft_tree target_verify]
    the page that a draft starts in is not copied for its second branch
    @@ speculative SpecEngine._branches
    - self._draft_pool.move_kv_cache(head, heads[0])
draft-starts-at-committed [prepare_decode draft_tree]
    a draft begins at the committed length, over tokens accepted since
    @@ speculative SpecEngine._branches
    - self._progress[request].computed
    + self._progress[request].committed
draft-keeps-translation [draft_tree target_verify] policies=memo
    a draft's next forward gets the translation of the previous one, whose locs were in the same buffer
    @@ speculative SpecEngine.write_draft
    - self._pool.policy.begin_forward()
draft-translates-alone [draft_tree target_verify]
    the draft's pool keeps its own mapping, a copy from its construction
    @@ speculative SpecEngine.build
    - self._draft_pool.register_mapping(self._pool.full_to_swa_index_mapping)
    + self._draft_pool.register_mapping(self._pool.full_to_swa_index_mapping.clone())
""",
)

ACCEPTED = mutants(
    _SPEC,
    """
rejected-not-freed [draft_tree target_verify]
    rejected tokens of a verification keep their slots, and the request forgets them
    @@ speculative SpecEngine._keep
    - self._allocator.free(rejected)
rejected-pages-not-freed [draft_tree target_verify]
    rejected whole pages of a verification keep their slots, and the request forgets them
    @@ speculative SpecEngine._keep
    - self._drop_surplus(running, end)
    + vars(running).update(length=end)
accepted-row-not-written [draft_tree target_verify]
    rejected slots are freed, and the row keeps the first slots of the verification
    @@ speculative SpecEngine._keep
    - running.row[start:end] = torch.tensor(kept)
accepted-not-moved [draft_tree target_verify]
    accepted nodes that are not the first ones stay where they were computed
    @@ speculative SpecEngine._move
    - self._hybrid().move_kv_cache(running.row[start:start + len(path)], sources)
accepted-moved-from-behind [draft_tree target_verify]
    accepted KV is moved token by token from the last one, over sources that are not read yet
    @@ speculative SpecEngine._move
    - self._hybrid().move_kv_cache(running.row[start:start + len(path)], sources)
    + for at in reversed(range(len(path))):
    +     self._hybrid().move_kv_cache(running.row[start + at:start + at + 1], sources[at:at + 1])
accepted-moved-without-last [draft_tree target_verify]
    the move counts the accepted draft tokens and not the bonus before them
    @@ speculative SpecEngine._move
    - self._hybrid().move_kv_cache(running.row[start:start + len(path)], sources)
    + self._hybrid().move_kv_cache(running.row[start:start + len(path) - 1], sources[:-1])
accepted-moved-in-full-layers [draft_tree target_verify]
    accepted KV moves in full layers and stays where it was in SWA layers
    @@ pools HybridPool.move_kv_cache
    - buffer[:, swa_targets] = buffer[:, swa_sources]
bonus-counted-twice [commit]
    a commit counts the bonus token that the accepted path already has
    @@ speculative SpecEngine.commit
    - progress.uncommitted.pop(0)
    + progress.uncommitted.pop(0) + 1
""",
)

RESERVES = mutants(
    _SPEC,
    """
surplus-kept-at-finish [prepare_decode draft_tree finish]
    a request that finishes frees only its committed slots and leaks the rest (SGLang PR 19518)
    @@ speculative SpecEngine.finish
    - self._drop_surplus(self._requests[request], self._progress[request].committed)
    + self._requests[request].length = self._progress[request].committed
surplus-kept-at-abort [prepare_decode draft_tree abort]
    an aborted or retracted request frees only its committed slots and leaks the rest
    @@ speculative SpecEngine.abort
    - self._drop_surplus(self._requests[request], self._progress[request].committed)
    + self._requests[request].length = self._progress[request].committed
surplus-from-inside-page [draft_tree target_verify]
    the freed surplus includes the page with the last accepted tokens
    @@ speculative SpecEngine._drop_surplus
    - self._layout.ceil(length)
    + self._layout.floor(length)
allocated-to-the-token [prepare_decode draft_tree]
    whole pages are allocated and the length is recorded to the token (SGLang PR 31616)
    @@ speculative SpecEngine._grow
    - return self._extend(batch, stops)
    + grown = self._extend(batch, stops)
    + for request in requests:
    +     running, exact = self._requests[request], self._progress[request].committed + self._layout.reserve
    +     running.length = min(running.length, exact)
    + return grown
reserve-for-one-step [prepare_decode draft_tree]
    the reserve covers one step, and the step before it may be uncommitted
    @@ spec_layout Layout.reserve
    - 2 * max(self.stride(self.page_size - 1) * self.topk, self.nodes)
    + max(self.stride(self.page_size - 1) * self.topk, self.nodes)
row-of-a-verification [prepare_decode draft_tree]
    rows of the request table have room for the verified tokens beyond the context length, and a step takes more
    @@ requests row_width
    - Layout(config).reserve
    + config.spec_draft_tokens + 4
window-evicted-beyond-committed [prepare_decode draft_tree]
    window eviction uses the allocated length, draft tokens included
    @@ speculative SpecEngine._insertable
    - self._progress[request].committed
    + self._requests[request].length
draft-evicts-no-window [draft_tree]
    one way of preparing a step never evicts windows (SGLang PR 34924)
    @@ speculative SpecEngine._take_draft
    - self.evict_window(request)
keys-counted-as-tokens [checkpoint]
    an insertion uses the length in tokens, but its keys are bigrams, one fewer (SGLang PRs 19570, 24371)
    @@ engine BuiltinEngine.checkpoint
    - self._aligned(len(keys))
    + self._aligned(running.length)
""",
)

_OF_DRAFTS = (
    *("graph-keeps-warm-up", "graph-keeps-padded-tail", "graph-binds-recreated-buffer"),
    *("graph-draft-keeps-target", "graph-verify-keeps-draft", "graph-smaller-batch-from-end"),
)

SPEC_GRAPHS: tuple[Mutant, ...] = tuple(
    replace(it, name=f"spec-{it.name}", features=("spec", "graphs"), events=("capture", "draft_tree", "target_verify"))
    for it in GRAPHS
    if it.name in _OF_DRAFTS
)
