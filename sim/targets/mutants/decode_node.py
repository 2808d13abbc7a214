"""Mutants of the decode node: its counts, its slots, what it tells the sender, and its CPU copies."""

from __future__ import annotations

from dataclasses import replace

from .patches import mutants
from .transform import Mutant

__all__ = ["BUDGETS", "COMBINED", "COPIES", "SLOTS"]

_NODE = Mutant("disagg-", "builtin", (), "hybrid", ("uncached", "memo"), "", level="engine", features=("disagg",))
_COPY = replace(_NODE, events=("retract", "resume"))
_SPEC = replace(_NODE, name="node-spec-", features=("disagg", "spec"))
_HOST = replace(_NODE, name="node-host-", host=True)

BUDGETS = mutants(
    _NODE,
    """
full-budget-forgets-evictable [evict]
    the full budget counts free slots only, and a request waits for slots that eviction from the tree would free
    @@ decode_accounts DecodeAccounts._available
    - allocator.full.available_size() + ledger.full_evictable
    + allocator.full.available_size()
swa-budget-forgets-evictable [evict]
    the SWA budget counts free slots only (before SGLang PR 29662)
    @@ decode_accounts DecodeAccounts._available
    - allocator.swa.available_size() + ledger.swa_evictable
    + allocator.swa.available_size()
full-budget-counts-locked [evict]
    the full budget counts tree slots in use by running requests as evictable
    @@ decode_accounts DecodeAccounts._available
    - allocator.full.available_size() + ledger.full_evictable
    + allocator.full.available_size() + ledger.full_evictable + ledger.full_protected
budget-forgets-reserved
    no tokens are reserved for the decode of active requests
    @@ decode_accounts DecodeAccounts.budgets
    - max(reserved * self.active(), need_full)
    + max(0, need_full)
budget-forgets-prebuilt
    a batch that was started and does not run yet is in no queue, and nothing is reserved for it
    @@ decode_accounts DecodeAccounts.budgets
    - reserved * prebuilt
    + 0
full-budget-forgets-retracted [retract]
    new requests are given the full slots that retracted ones wait for
    @@ decode_accounts DecodeAccounts.budgets
    - full_budget -= sum(self.required(job)[0] for job in self._jobs.retracted)
swa-budget-forgets-retracted [retract]
    new requests are given the SWA slots that retracted ones wait for
    @@ decode_accounts DecodeAccounts.budgets
    - swa_budget -= sum(self.required(job)[1] for job in self._jobs.retracted)
budget-of-smaller-pool
    both pools share one budget, that of the pool with fewer slots: requests wait for full slots that are free
    @@ decode_accounts DecodeAccounts.budgets
    - if not self.uses_tail:
    -     full = swa = min(full, swa)
    + full = swa = min(full, swa)
swa-retractable-of-full
    the SWA slots that a retraction frees are counted as the request's whole length
    @@ decode_accounts DecodeAccounts.retractable
    - self.tail(job.prompt) + job.outputs
    + job.prompt + job.outputs
swa-growth-without-window
    SWA tokens are reserved for the decode of each request as if no window were ever evicted
    @@ decode_accounts DecodeAccounts._growth
    - max(0, requests * self._config.window - used)
    + self._config.reserved_decode * requests
active-forgets-transferring
    requests in transfer do not count as active, and nothing is reserved for them
    @@ decode_accounts DecodeAccounts.active
    - len(self._jobs.transferring)
    + 0
need-forgets-running
    nothing is reserved for the running request that may still need the most tokens
    @@ decode_accounts DecodeAccounts._needs
    - if not running:
    -     return (0, 0)
    + return (0, 0)
admission-ignores-output
    a request is admitted by its prompt, without the tokens that it may still generate
    @@ decode_accounts DecodeAccounts.fits
    - min(job.most, _LOOK_AHEAD)
    + 0
admission-before-lock [finish]
    slots that a request's own prefix locks are counted as evictable for it
    @@ disagg DisaggEngine._fitting_lock
    - self._accounts.fits(job, node.end)
    + (self._tree.unlock(lock), self._accounts.fits(job, node.end), self._tree.lock(node, lock.since))[1]
prefix-or-nothing [finish]
    a request waits because it needs SWA slots for every token behind its prefix, although it would fit without the
    prefix
    @@ disagg DisaggEngine._fitting_lock
    - (self._prefix(job), self._tree.root)
    + (self._prefix(job),)
need-unaligned
    a request is charged in tokens, and the allocator takes whole pages
    @@ decode_accounts DecodeAccounts.required
    - self.whole_pages(full) - cached + reserved
    + full - cached + reserved
resume-takes-unaligned [retract resume]
    retracted requests resume if their tokens fit, and the allocator takes whole pages (SGLang PR 33794)
    @@ disagg DisaggEngine.resume
    - full, swa = self._accounts.required(job)
    + full, swa = (length + self._config.reserved_decode for length in self._accounts.lengths(job))
resume-takes-all [retract resume]
    the slots given to a resumed request are not subtracted from the budget for the next one
    @@ disagg DisaggEngine.resume
    - full_left, swa_left = (full_left - full, swa_left - swa)
prefix-charged-as-tail [finish]
    behind a cached prefix every token gets an SWA slot, and only the tail is charged to the budget
    @@ decode_accounts DecodeAccounts.required
    - swa = full - cached if cached else swa
    @@ decode_accounts DecodeAccounts.fits
    - length - cached if cached else tail
    + tail
output-asked-beside-prefix [finish]
    future output tokens are charged on top of the whole prompt, cached or not
    @@ decode_accounts DecodeAccounts.fits
    - job.prompt - cached + ahead
    + job.prompt + ahead
looks-ahead-for-ever
    a request is charged for all the tokens that it may ever generate, and one with a high limit is never admitted
    @@ decode_accounts DecodeAccounts.fits
    - _LOOK_AHEAD
    + job.most
looks-ahead-too-little
    the future need of running requests is cut off after a few tokens
    @@ decode_accounts DecodeAccounts._needs
    - job.prompt + min(job.most, _LOOK_AHEAD)
    + job.prompt + min(job.most, 64)
rejects-by-full-pool
    a request whose tail no empty SWA pool could hold is queued, and blocks all others forever
    @@ decode_accounts DecodeAccounts.rejects
    - self.required(job)[1] > config.swa_size
    + False
lets-later-ones-in
    a request that does not fit is skipped, and later ones get the slots that it waits for
    @@ disagg DisaggEngine.preallocate
    - job = self._jobs.queued[0]
    + self._jobs.queued.sort(key=lambda it: not self._accounts.fits(it, 0))
    + job = self._jobs.queued[0]
retract-keeps-outgrown [retract]
    a retracted request that no empty node could hold any more waits to resume forever
    @@ disagg DisaggEngine.retract
    - not self._accounts.rejects(job)
    + True
""",
)

SLOTS = mutants(
    _NODE,
    """
tail-not-aligned
    the tail starts with the window and not with the window's page
    @@ decode_accounts DecodeAccounts.tail
    - self.aligned(max(0, length - self._config.window))
    + max(0, length - self._config.window)
tail-a-page-short
    the first page of the window gets no SWA slots, and the sender writes its rows to the dummy page
    @@ disagg DisaggEngine._allocate
    - evicted = length - tail
    @@ disagg DisaggEngine._allocate
    - self._accounts.tail(length)
    + max(1, self._accounts.tail(length) - self._config.page_size)
tail-leaves-old-mapping
    a tail preallocation over recycled full pages leaves the former owner's entries on its head, and frees the owner's
    next SWA pages with them (SGLang PR 25805)
    @@ swa SwaAllocator.free
    - swa_pages = self._unmap(locs)
    + kept = self.full_to_swa_index_mapping.clone()
    + swa_pages = self._unmap(locs)
    + self.full_to_swa_index_mapping.copy_(kept)
    @@ swa SwaAllocator.alloc_extend_swa_tail
    - None if swa_locs is None else head + swa_locs
    + swa_locs
    @@ swa SwaAllocator._pair
      assert swa_locs is not None
    + tail = locs[len(locs) - len(swa_locs):]
    + self._map(tail, swa_locs)
    + return locs
tail-not-counted-as-evicted
    a tail preallocation leaves the evicted length at 0, and the head is inserted as if it had SWA slots (SGLang PR
    28085)
    @@ disagg DisaggEngine._allocate
    - evicted = length - tail
prefix-never-used [finish]
    the tree is not searched for a prompt's prefix, and a request waits that would fit behind its cached prefix
    @@ disagg DisaggEngine._prefix
    - not self._config.decode_tree
    + True
prefix-is-whole-prompt [finish]
    a prompt is matched up to its last token, and nothing is left for the sender
    @@ disagg DisaggEngine._prefix
    - self._aligned(job.prompt - 1)
    + self._aligned(job.prompt)
tail-makes-room-for-full-only
    the SWA budget counts evictable slots of the tree, and only full slots are evicted (SGLang PRs 29662, 38634)
    @@ disagg DisaggEngine._allocate
    - self._evictor.make_room(pages, self._allocator.swa.pages_needed([0], [tail]))
    + self._evictor.make_room(pages, 0)
sender-told-window-unaligned
    the SWA pages for the sender start at the window's first token, and the sender counts them from the page boundary
    before it
    @@ disagg DisaggEngine._told
    - self._aligned(max(cached, job.prompt - self._config.window))
    + max(cached, job.prompt - self._config.window)
sender-told-full-pages
    the sender writes SWA rows to the full pages of these tokens
    @@ disagg DisaggEngine._told
    - self._pool.gather(running.row[job.swa_from:job.prompt:size])
    + running.row[job.swa_from:job.prompt:size]
start-inserts-unfilled
    unfilled SWA slots in front of the window are inserted into the tree as rows of their tokens
    @@ disagg DisaggEngine.start
    - self._drop_unfilled(job)
abort-leaks-head [abort]
    a request that leaves frees the tokens with SWA slots, and leaks the head of its tail preallocation
    @@ engine BuiltinEngine._release
    - running.locs(running.shared, running.length)
    + running.locs(max(running.shared, running.evicted), running.length)
abort-forgets-transferring [abort]
    a request that is aborted during its transfer leaks its slots
    @@ disagg DisaggEngine.abort
    - request in self._requests
    + request in self._requests and job is not None and job.outputs
    @@ disagg DisaggEngine.abort
    - self._jobs.take(request)
    + job = self._jobs.take(request)
""",
)

COPIES = mutants(
    _COPY,
    """
copy-inverts-mask
    the mask of the copy marks the tokens that had no SWA slot
    @@ pools HybridPool.get_cpu_copy
    - CpuCopy(
    -     full=copy_out(self.buffers_of[FULL], locs), swa=copy_out(self.buffers_of[SWA], swa_locs[held]), swa_mask=held
    - )
    + CpuCopy(
    +     full=copy_out(self.buffers_of[FULL], locs), swa=copy_out(self.buffers_of[SWA], swa_locs[held]), swa_mask=~held
    + )
copy-without-mask
    every token's SWA row is copied, from the dummy slot for tokens without one (before SGLang PR 24036)
    @@ pools HybridPool.get_cpu_copy
    - swa_locs > 0
    + swa_locs >= 0
copy-stops-early
    the copy leaves out the last token that has KV
    @@ disagg DisaggEngine.retract
    - running.row[:running.length]
    + running.row[:running.length - 1]
load-filters-from-front
    the load takes as many rows as there are slots from the front of the copy, not the rows of these tokens
    @@ pools HybridPool.load_cpu_copy
    - mapped[copy.swa_mask]
    + torch.arange(int(copy.swa_mask.sum())) < int((copy.swa_mask & mapped).sum())
load-loses-last-chunk
    rows that do not fill a chunk are not loaded
    @@ cpu_copy copy_in
    - zip(torch.split(locs, CHUNK_ROWS), chunks, strict=True)
    + zip(torch.split(locs, CHUNK_ROWS)[: len(locs) // CHUNK_ROWS], chunks)
resume-loads-nothing-in-swa
    a resumed request has its full rows back and no SWA rows
    @@ pools HybridPool.load_cpu_copy
    - copy_in(self.buffers_of[SWA], swa_locs[copy.swa_mask & mapped], rows)
resume-keeps-copys-slots
    a request is loaded into the slots that it had when it was retracted
    @@ disagg DisaggEngine._load
    - running.row[:running.length]
    + torch.tensor(job.__dict__.pop('slots'))
    @@ disagg DisaggEngine.retract
      job.copy = self._hybrid().get_cpu_copy(running.row[:running.length])
    + job.__dict__['slots'] = running.row[:running.length].tolist()
""",
)

_SPECULATING = mutants(
    _SPEC,
    """
draft-not-received [transfer draft_tree]
    the sender's rows of the draft model are dropped, so the first draft attends to the former contents of the slots
    @@ spec_node SpecNodeEngine.receive_draft
    - buffer.index_copy_(0, index, rows)
retract-keeps-surplus [prepare_decode retract resume]
    a retraction also copies the slots beyond the committed tokens, and the resumed request is longer than before
    @@ spec_node SpecNodeEngine.retract
    - self._drop_surplus(self._requests[request], self._progress[request].committed)
prebuilt-stay-apart [start draft_tree]
    started requests speculate without joining the running batch, so they can be neither retracted nor counted
    @@ spec_node SpecNodeEngine.prepare_decode
    - self._jobs.running += self._jobs.prebuilt
""",
)

_WITH_HOST = mutants(
    _HOST,
    """
load-not-charged [preallocate evict]
    tokens that are loaded back are not charged to the budgets, and more is admitted than fits
    @@ host_node HostNode._loading_lock
    - self._accounts.fits(job, node.end, missing)
    + True
refused-load-keeps-lock [preallocate evict]
    a prefix on the host for which there was no room stays locked and cannot be evicted
    @@ host_node HostNode._loading_lock
    - self._slots.unlock(lock)
""",
)

COMBINED = (*_SPECULATING, *_WITH_HOST)
"""Mutants of decode nodes with more than one feature."""
