"""Mutants of the decode node's counts: what it admits and does not fit, and what it keeps waiting and does."""

from __future__ import annotations

from .edits import disagg, drop, swap
from .transform import Edit, Mutant

__all__ = ["BUDGETS", "counts", "node"]


def counts(method: str, old: str, new: str) -> Edit:
    """An edit of what the node counts."""
    return swap("decode_accounts", f"DecodeAccounts.{method}", old, new)


def node(method: str, old: str, new: str) -> Edit:
    """An edit of one of the node's steps."""
    return swap("disagg", f"DisaggEngine.{method}", old, new)


_FIRST_THAT_FITS = """
self._jobs.queued.sort(key=lambda it: not self._accounts.fits(it, 0))
job = self._jobs.queued[0]
"""

BUDGETS: tuple[Mutant, ...] = (
    disagg(
        "full-budget-forgets-evictable",
        "the full budget counts free slots only, and a request waits for slots that the tree could give up",
        counts("_available", "len(node.tokens) if node.full is not None and not node.full_locks else 0", "0"),
        events=("evict",),
    ),
    disagg(
        "swa-budget-forgets-evictable",
        "the SWA budget counts free slots only (before SGLang PR 29662)",
        counts("_available", "len(node.tokens) if node.swa is not None and not node.swa_locks else 0", "0"),
        events=("evict",),
    ),
    disagg(
        "full-budget-counts-locked",
        "the full budget counts tree slots that running requests use as slots that can be evicted",
        counts(
            "_available",
            "len(node.tokens) if node.full is not None and not node.full_locks else 0",
            "len(node.tokens) if node.full is not None else 0",
        ),
        events=("evict",),
    ),
    disagg(
        "budget-forgets-reserved",
        "no tokens are kept back for the decode of active requests",
        counts("budgets", "max(reserved * self.active(), need_full)", "max(0, need_full)"),
    ),
    disagg(
        "budget-forgets-prebuilt",
        "a batch that was started and does not run yet is in no queue, and nothing is kept back for it",
        counts("budgets", "reserved * prebuilt", "0"),
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
        counts("budgets", "if not self.uses_tail:\n    full = swa = min(full, swa)", "full = swa = min(full, swa)"),
    ),
    disagg(
        "swa-retractable-of-full",
        "what retraction frees of the SWA pool is counted as the request's whole length",
        counts("retractable", "self.tail(job.prompt) + job.outputs", "job.prompt + job.outputs"),
    ),
    disagg(
        "swa-growth-without-window",
        "SWA tokens are reserved for the decode of each request as if no window ever let one go",
        counts("_growth", "max(0, requests * self._config.window - used)", "self._config.reserved_decode * requests"),
    ),
    disagg(
        "active-forgets-transferring",
        "requests whose KV is on the way are not active, and nothing is reserved for them",
        counts("active", "len(self._jobs.transferring)", "0"),
    ),
    disagg(
        "need-forgets-running",
        "nothing is kept for the running request that may still want most",
        counts("_needs", "if not running:\n    return (0, 0)", "return (0, 0)"),
    ),
    disagg(
        "admission-ignores-output",
        "a request is admitted for its prompt, and what it may still generate is not asked for",
        counts("fits", "min(job.most, _LOOK_AHEAD)", "0"),
    ),
    disagg(
        "admission-before-lock",
        "what a request's own prefix keeps locked is counted as what it can evict",
        node(
            "_fitting_lock",
            "self._accounts.fits(job, node.end)",
            "(self._tree.unlock(lock), self._accounts.fits(job, node.end), self._tree.lock(node, lock.since))[1]",
        ),
        events=("finish",),
    ),
    disagg(
        "prefix-or-nothing",
        "a request waits because it wants SWA slots for every token behind its prefix, and could do without the prefix",
        node("_fitting_lock", "(self._prefix(job), self._tree.root)", "(self._prefix(job),)"),
        events=("finish",),
    ),
    disagg(
        "need-unaligned",
        "what a request is charged is counted in tokens, and the allocator takes whole pages",
        counts("required", "self.whole_pages(full) - cached + reserved", "full - cached + reserved"),
    ),
    disagg(
        "resume-takes-unaligned",
        "retracted requests resume if their tokens fit, and the allocator takes whole pages (SGLang PR 33794)",
        node(
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
        counts("fits", "length - cached if cached else tail", "tail"),
        events=("finish",),
    ),
    disagg(
        "output-asked-beside-prefix",
        "what a request may still generate is asked for on top of its whole prompt, cached or not",
        counts("fits", "job.prompt - cached + ahead", "job.prompt + ahead"),
        events=("finish",),
    ),
    disagg(
        "looks-ahead-for-ever",
        "a request is asked for all the tokens it may ever generate, and one that wants very many never gets in",
        counts("fits", "_LOOK_AHEAD", "job.most"),
    ),
    disagg(
        "looks-ahead-too-little",
        "what running requests may still want is cut off after a few tokens",
        counts("_needs", "job.prompt + min(job.most, _LOOK_AHEAD)", "job.prompt + min(job.most, 64)"),
    ),
    disagg(
        "rejects-by-full-pool",
        "a request whose tail no empty SWA pool could hold is queued, and keeps all others waiting for ever",
        counts("rejects", "self.required(job)[1] > config.swa_size", "False"),
    ),
    disagg(
        "lets-later-ones-in",
        "a request that does not fit is passed over, and those behind it get the slots that it waits for",
        node("preallocate", "job = self._jobs.queued[0]", _FIRST_THAT_FITS),
    ),
    disagg(
        "retract-keeps-outgrown",
        "a retracted request that no empty node could hold any more waits to resume for ever",
        node("retract", "not self._accounts.rejects(job)", "True"),
        events=("retract",),
    ),
)
