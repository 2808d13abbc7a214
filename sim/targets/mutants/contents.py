"""Mutants of the pools: CPU copies, their masks, moves."""

from __future__ import annotations

from .edits import after, any_policy, before, drop, swap
from .transform import Mutant

__all__ = ["CONTENTS", "CPU_COPY"]

CPU_COPY = ("cpu_copy", "load_cpu_copy")

CONTENTS: tuple[Mutant, ...] = (
    any_policy(
        "cpu-copy-without-mask",
        "an evicted token's row is saved from the padding slot and loaded into a fresh slot (SGLang PRs 24036, 24857)",
        swap("pools", "HybridPool.get_cpu_copy", "swa_locs > 0", "swa_locs >= 0"),
        events=CPU_COPY,
    ),
    any_policy(
        "cpu-load-old-mask-only",
        "a load brings every row that the copy holds, although some tokens have no SWA slot any more",
        swap("pools", "HybridPool.load_cpu_copy", "keep_rows(copy.swa, mapped[copy.swa_mask])", "copy.swa"),
        events=(*CPU_COPY, "free_swa"),
    ),
    any_policy(
        "cpu-load-forgets-positions",
        "a load packs the rows it has into the first tokens that are mapped now",
        swap(
            "pools",
            "HybridPool.load_cpu_copy",
            "swa_locs[copy.swa_mask & mapped]",
            "swa_locs[mapped][: int((copy.swa_mask & mapped).sum())]",
        ),
        events=CPU_COPY,
    ),
    any_policy(
        "cpu-load-to-old-slots",
        "a load goes to the SWA slots that the rows came from: the copy keeps their translation",
        after(
            "pools",
            "HybridPool.get_cpu_copy",
            "held = swa_locs > 0",
            "self._copied_from = {**getattr(self, '_copied_from', {}), held: swa_locs}",
        ),
        swap("pools", "HybridPool.load_cpu_copy", "self.gather(locs)", "self._copied_from[copy.swa_mask]"),
        events=CPU_COPY,
    ),
    any_policy(
        "cpu-load-loses-last-chunk",
        "the rows after the last whole chunk are not loaded",
        swap(
            "cpu_copy",
            "copy_in",
            "zip(torch.split(locs, CHUNK_ROWS), chunks, strict=True)",
            "list(zip(torch.split(locs, CHUNK_ROWS), chunks, strict=True))[: len(locs) // CHUNK_ROWS]",
        ),
        events=CPU_COPY,
    ),
    any_policy(
        "cpu-load-filter-drops-values",
        "the row filter keeps the first tensor of a chunk and drops the others (SGLang PR 35888)",
        before(
            "cpu_copy",
            "keep_rows",
            "return list(zip(*kept, strict=True))",
            "if not mask.all(): return [chunk[:1] for chunk in zip(*kept, strict=True)]",
        ),
        swap("cpu_copy", "copy_in", "zip(buffers, chunk, strict=True)", "zip(buffers, chunk)"),
        events=(*CPU_COPY, "free_swa"),
    ),
    any_policy(
        "move-forgets-values",
        "accepted tokens move with their SWA keys and without their SWA values",
        swap("pools", "HybridPool.move_kv_cache", "self.buffers_of[SWA]", "self.buffers_of[SWA][:1]"),
        events=("move",),
    ),
    any_policy(
        "move-in-full-pool-only",
        "accepted tokens move in full layers and stay where they were in SWA layers",
        drop("pools", "HybridPool.move_kv_cache", "buffer[:, swa_targets] = buffer[:, swa_sources]"),
        events=("move",),
    ),
)
