"""Mutants of the decode node: what it allocates wrongly, tells the sender wrongly, or brings back wrongly."""

from __future__ import annotations

from .disagg_budgets_builtin import counts, node
from .edits import after, disagg, drop, swap
from .transform import Mutant

__all__ = ["COPIES", "SLOTS"]

_KEEP_ENTRIES = """
kept = self.full_to_swa_index_mapping.clone()
swa_pages = self._unmap(locs)
self.full_to_swa_index_mapping.copy_(kept)
"""

SLOTS: tuple[Mutant, ...] = (
    disagg(
        "tail-not-aligned",
        "the tail starts with the window and not with the window's page",
        counts("tail", "self.aligned(max(0, length - self._config.window))", "max(0, length - self._config.window)"),
    ),
    disagg(
        "tail-a-page-short",
        "the first page of the window gets no SWA slots, and the sender writes its rows to the dummy page",
        drop("disagg", "DisaggEngine._allocate", "evicted = length - tail"),
        node(
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
        "prefix-never-used",
        "what the tree has of a prompt is not looked for, and a request waits that would fit behind it",
        node("_prefix", "not self._config.decode_tree", "True"),
        events=("finish",),
    ),
    disagg(
        "prefix-is-whole-prompt",
        "a prompt is matched to its last token, and nothing is left for the sender",
        node("_prefix", "self._aligned(job.prompt - 1)", "self._aligned(job.prompt)"),
        events=("finish",),
    ),
    disagg(
        "tail-makes-room-for-full-only",
        "the SWA budget counts what the tree can give up, and only full slots are evicted (SGLang PRs 29662, 38634)",
        node(
            "_allocate",
            "self._evictor.make_room(pages, self._allocator.swa.pages_needed([0], [tail]))",
            "self._evictor.make_room(pages, 0)",
        ),
    ),
    disagg(
        "sender-told-window-unaligned",
        "the sender is told SWA pages from the window's first token on, and counts them from the page before",
        node(
            "_told",
            "self._aligned(max(cached, job.prompt - self._config.window))",
            "max(cached, job.prompt - self._config.window)",
        ),
    ),
    disagg(
        "sender-told-full-pages",
        "the sender writes SWA rows to the pages that the full pool has for these tokens",
        node(
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
        node("abort", "request in self._requests", "request in self._requests and job is not None and job.outputs"),
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
        node("retract", "running.row[:running.length]", "running.row[:running.length - 1]"),
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
