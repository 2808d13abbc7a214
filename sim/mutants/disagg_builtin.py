"""Mutants of the decode node: what it counts wrongly, allocates wrongly, or brings back wrongly from the CPU."""

from __future__ import annotations

from staleloc.sim.mutants.edits import after, disagg, drop, swap
from staleloc.sim.mutate import Edit, Mutant

__all__ = ["BUDGETS", "COPIES", "SLOTS"]


def _counts(method: str, old: str, new: str) -> Edit:
    return swap("decode_accounts", f"DecodeAccounts.{method}", old, new)


def _node(method: str, old: str, new: str) -> Edit:
    return swap("disagg", f"DisaggEngine.{method}", old, new)


BUDGETS: tuple[Mutant, ...] = (
    disagg(
        "full-budget-forgets-evictable",
        "the full budget counts free slots only, and a request waits for slots that the tree could give up",
        _counts("_available", "len(node.tokens) if node.full is not None and not node.full_locks else 0", "0"),
        events=("evict",),
    ),
    disagg(
        "swa-budget-forgets-evictable",
        "the SWA budget counts free slots only (before SGLang PR 29662)",
        _counts("_available", "len(node.tokens) if node.swa is not None and not node.swa_locks else 0", "0"),
        events=("evict",),
    ),
    disagg(
        "full-budget-counts-locked",
        "the full budget counts tree slots that running requests use as slots that can be evicted",
        _counts(
            "_available",
            "len(node.tokens) if node.full is not None and not node.full_locks else 0",
            "len(node.tokens) if node.full is not None else 0",
        ),
        events=("evict",),
    ),
    disagg(
        "budget-forgets-reserved",
        "no tokens are kept back for the decode of active requests",
        _counts("budgets", "max(reserved * self.active(), need_full)", "max(0, need_full)"),
    ),
    disagg(
        "budget-forgets-prebuilt",
        "a batch that was started and does not run yet is in no queue, and nothing is kept back for it",
        _counts("budgets", "reserved * prebuilt", "0"),
    ),
    disagg(
        "full-budget-forgets-retracted",
        "new requests are given the full slots that retracted ones wait for",
        drop(
            "decode_accounts",
            "DecodeAccounts.budgets",
            "full_budget -= sum(self.required(job)[0] for job in self._jobs.retracted)",
        ),
        events=("retract",),
    ),
    disagg(
        "swa-budget-forgets-retracted",
        "new requests are given the SWA slots that retracted ones wait for",
        drop(
            "decode_accounts",
            "DecodeAccounts.budgets",
            "swa_budget -= sum(self.required(job)[1] for job in self._jobs.retracted)",
        ),
        events=("retract",),
    ),
    disagg(
        "budget-of-smaller-pool",
        "one budget for both pools, of the pool that has less: requests wait for full slots that are there",
        _counts("budgets", "if not self.uses_tail:\n    full = swa = min(full, swa)", "full = swa = min(full, swa)"),
    ),
    disagg(
        "swa-retractable-of-full",
        "what retraction frees of the SWA pool is counted as the request's whole length",
        _counts("retractable", "self.tail(job.prompt) + job.outputs", "job.prompt + job.outputs"),
    ),
    disagg(
        "swa-growth-without-window",
        "SWA tokens are reserved for the decode of each request as if no window ever let one go",
        _counts("_growth", "max(0, requests * self._config.window - used)", "self._config.reserved_decode * requests"),
    ),
    disagg(
        "active-forgets-transferring",
        "requests whose KV is on the way are not active, and nothing is reserved for them",
        _counts("active", "len(self._jobs.transferring)", "0"),
    ),
    disagg(
        "need-forgets-running",
        "nothing is kept for the running request that may still want most",
        _counts("_needs", "if not running:\n    return (0, 0)", "return (0, 0)"),
    ),
    disagg(
        "admission-ignores-output",
        "a request is admitted for its prompt, and what it may still generate is not asked for",
        _counts("fits", "min(job.most, _LOOK_AHEAD)", "0"),
    ),
    disagg(
        "admission-before-lock",
        "what a request's own prefix keeps locked is counted as what it can evict",
        _node(
            "_fitting_lock",
            "self._accounts.fits(job, node.end)",
            "(self._tree.unlock(lock), self._accounts.fits(job, node.end), self._tree.lock(node, lock.since))[1]",
        ),
        events=("finish",),
    ),
    disagg(
        "prefix-or-nothing",
        "a request waits because it wants SWA slots for every token behind its prefix, and could do without the prefix",
        _node("_fitting_lock", "(self._prefix(job), self._tree.root)", "(self._prefix(job),)"),
        events=("finish",),
    ),
    disagg(
        "need-unaligned",
        "what a request is charged is counted in tokens, and the allocator takes whole pages",
        _counts("required", "self.whole_pages(full) - cached + reserved", "full - cached + reserved"),
    ),
    disagg(
        "resume-takes-unaligned",
        "retracted requests resume if their tokens fit, and the allocator takes whole pages (SGLang PR 33794)",
        _node(
            "resume",
            "full, swa = self._accounts.required(job)",
            "full, swa = (length + self._config.reserved_decode for length in self._accounts.lengths(job))",
        ),
        events=("retract", "resume"),
    ),
    disagg(
        "resume-takes-all",
        "what a resumed request was given is not taken off the budget for the next one",
        drop("disagg", "DisaggEngine.resume", "full_left, swa_left = (full_left - full, swa_left - swa)"),
        events=("retract", "resume"),
    ),
    disagg(
        "prefix-charged-as-tail",
        "behind a cached prefix every token gets an SWA slot, and the budget is asked for the tail only",
        drop("decode_accounts", "DecodeAccounts.required", "swa = full - cached if cached else swa"),
        events=("finish",),
    ),
)

_KEEP_ENTRIES = """
kept = self.full_to_swa_index_mapping.clone()
swa_pages = self._unmap(locs)
self.full_to_swa_index_mapping.copy_(kept)
"""

SLOTS: tuple[Mutant, ...] = (
    disagg(
        "tail-not-aligned",
        "the tail starts with the window and not with the window's page",
        _counts("tail", "self.aligned(max(0, length - self._config.window))", "max(0, length - self._config.window)"),
    ),
    disagg(
        "tail-a-page-short",
        "the first page of the window gets no SWA slots, and the sender writes its rows to the dummy page",
        drop("disagg", "DisaggEngine._allocate", "evicted = length - tail"),
        _node(
            "_allocate", "self._accounts.tail(length)", "max(1, self._accounts.tail(length) - self._config.page_size)"
        ),
    ),
    disagg(
        "tail-leaves-old-mapping",
        "a tail preallocation over recycled full pages leaves the former owner's entries on its head, and gives the "
        "owner's next SWA pages back with them (SGLang PR 25805)",
        swap("swa", "SwaAllocator.free", "swa_pages = self._unmap(locs)", _KEEP_ENTRIES),
        swap("swa", "SwaAllocator.alloc_extend_swa_tail", "None if swa_locs is None else head + swa_locs", "swa_locs"),
        after(
            "swa",
            "SwaAllocator._pair",
            "assert swa_locs is not None",
            "tail = locs[len(locs) - len(swa_locs):]\nself._map(tail, swa_locs)\nreturn locs",
        ),
    ),
    disagg(
        "tail-not-counted-as-evicted",
        "a tail preallocation leaves the evicted length at 0, and the head is inserted as if it had SWA slots "
        "(SGLang PR 28085)",
        drop("disagg", "DisaggEngine._allocate", "evicted = length - tail"),
    ),
    disagg(
        "tail-makes-room-for-full-only",
        "the SWA budget counts what the tree can give up, and only full slots are evicted (SGLang PRs 29662, 38634)",
        _node(
            "_allocate",
            "self._evictor.make_room(pages, self._allocator.swa.pages_needed([0], [tail]))",
            "self._evictor.make_room(pages, 0)",
        ),
    ),
    disagg(
        "sender-told-window-unaligned",
        "the sender is told SWA pages from the window's first token on, and counts them from the page before",
        _node(
            "_told",
            "self._aligned(max(cached, job.prompt - self._config.window))",
            "max(cached, job.prompt - self._config.window)",
        ),
    ),
    disagg(
        "sender-told-full-pages",
        "the sender writes SWA rows to the pages that the full pool has for these tokens",
        _node(
            "_told",
            "self._pool.gather(running.row[job.swa_from:job.prompt:size])",
            "running.row[job.swa_from:job.prompt:size]",
        ),
    ),
    disagg(
        "start-inserts-unfilled",
        "SWA slots in front of the window, which nobody filled, are inserted into the tree as rows of their tokens",
        drop("disagg", "DisaggEngine.start", "self._drop_unfilled(job)"),
    ),
    disagg(
        "abort-leaks-head",
        "a request that leaves frees the tokens with SWA slots, and the head of its tail preallocation leaks",
        swap(
            "engine",
            "BuiltinEngine._release",
            "running.locs(running.shared, running.length)",
            "running.locs(max(running.shared, running.evicted), running.length)",
        ),
        events=("abort",),
    ),
    disagg(
        "abort-forgets-transferring",
        "a request that is aborted while its KV is on the way leaves its slots behind",
        _node("abort", "request in self._requests", "request in self._requests and job is not None and job.outputs"),
        swap("disagg", "DisaggEngine.abort", "self._jobs.take(request)", "job = self._jobs.take(request)"),
        events=("abort",),
    ),
)

_COPY = (
    "CpuCopy(full=copy_out(self.buffers_of[FULL], locs), "
    "swa=copy_out(self.buffers_of[SWA], swa_locs[held]), swa_mask={})"
)

COPIES: tuple[Mutant, ...] = (
    disagg(
        "copy-inverts-mask",
        "the copy says that it holds the SWA rows of the tokens that had no SWA slot",
        swap("pools", "HybridPool.get_cpu_copy", _COPY.format("held"), _COPY.format("~held")),
        events=("retract", "resume"),
    ),
    disagg(
        "copy-without-mask",
        "every token's SWA row is copied, that of the dummy slot for tokens without one (before SGLang PR 24036)",
        swap("pools", "HybridPool.get_cpu_copy", "swa_locs > 0", "swa_locs >= 0"),
        events=("retract", "resume"),
    ),
    disagg(
        "copy-stops-early",
        "the copy leaves out the last token that has KV",
        _node("retract", "running.row[:running.length]", "running.row[:running.length - 1]"),
        events=("retract", "resume"),
    ),
    disagg(
        "load-filters-from-front",
        "the load takes as many rows of the copy as there are slots, from its front and not those of these tokens",
        swap(
            "pools",
            "HybridPool.load_cpu_copy",
            "mapped[copy.swa_mask]",
            "torch.arange(int(copy.swa_mask.sum())) < int((copy.swa_mask & mapped).sum())",
        ),
        events=("retract", "resume"),
    ),
    disagg(
        "load-loses-last-chunk",
        "rows that do not fill a chunk are not loaded",
        swap(
            "cpu_copy",
            "copy_in",
            "zip(torch.split(locs, CHUNK_ROWS), chunks, strict=True)",
            "zip(torch.split(locs, CHUNK_ROWS)[: len(locs) // CHUNK_ROWS], chunks)",
        ),
        events=("retract", "resume"),
    ),
    disagg(
        "resume-loads-nothing-in-swa",
        "a resumed request has its full rows back and no SWA rows",
        drop(
            "pools", "HybridPool.load_cpu_copy", "copy_in(self.buffers_of[SWA], swa_locs[copy.swa_mask & mapped], rows)"
        ),
        events=("retract", "resume"),
    ),
    disagg(
        "resume-keeps-copys-slots",
        "a request is loaded into the slots that it had when it was retracted",
        swap(
            "disagg",
            "DisaggEngine._load",
            "running.row[:running.length]",
            "torch.tensor(job.__dict__.pop('slots'))",
        ),
        after(
            "disagg",
            "DisaggEngine.retract",
            "job.copy = self._hybrid().get_cpu_copy(running.row[:running.length])",
            "job.__dict__['slots'] = running.row[:running.length].tolist()",
        ),
        events=("retract", "resume"),
    ),
)
