"""Mutants of SGLang's own batches, and of its processing of their results, with two batches in flight."""

from __future__ import annotations

from .patches import mutants
from .transform import Mutant

__all__ = ["SGLANG_OVERLAPS"]

_MANAGERS = "sglang.srt.managers"

SGLANG_OVERLAPS = mutants(
    Mutant(
        "sglang-overlap-",
        "sglang",
        (),
        "hybrid",
        ("python-core", "rust-core"),
        "",
        level="engine",
        releases=">=0.5.22",
        features=("scheduler", "overlap"),
    ),
    """
finished-is-processed-again
    the result of a batch is applied to a request that ended with the results before
    @@ results SchedulerBatchResultProcessor.process_batch_result_decode
    - req.finished() or req.is_retracted
    + req.is_retracted
filter-keeps-lengths
    requests leave the running batch, and the lengths of the first ones stay
    @@ batch ScheduleBatch.filter_batch
    - self.seq_lens = self.seq_lens[keep_indices_device]
    + self.seq_lens = self.seq_lens[: len(keep_indices)]
merge-swaps-lengths
    the lengths of two batches that are merged are in another order than their requests
    @@ batch ScheduleBatch.merge_batch
    - torch.cat([self.seq_lens, other.seq_lens])
    + torch.cat([other.seq_lens, self.seq_lens])
lengths-in-place
    the next step counts its lengths up in the tensor that the batch in flight holds
    @@ batch ScheduleBatch.prepare_for_decode
    - self.seq_lens = self.seq_lens + 1
    + self.seq_lens.add_(1)
retracted-takes-its-result
    the result of a batch is applied to a request that was retracted while it was in flight
    @@ results SchedulerBatchResultProcessor.process_batch_result_decode
    - req.finished() or req.is_retracted
    + req.finished()
filter-keeps-rows releases=>=0.5.23
    requests leave the running batch, and the rows of the first ones stay
    @@ batch ScheduleBatch.filter_batch
    - self.req_pool_indices = self.req_pool_indices[keep_indices_device]
    + self.req_pool_indices = self.req_pool_indices[: len(keep_indices)]
merge-swaps-lengths-on-host releases=>=0.5.23
    the host's copy of the lengths of two batches that are merged is in another order than their requests
    @@ batch ScheduleBatch.merge_batch
    - torch.cat([self.seq_lens_cpu, other.seq_lens_cpu])
    + torch.cat([other.seq_lens_cpu, self.seq_lens_cpu])
decode-locs-in-one-buffer releases=>=0.5.23
    the locs of the next decode step are written into the tensor that the batch in flight holds
    @@ paged PagedTokenToKVPoolAllocator.alloc_decode
    - out_indices = torch.empty((bs,), dtype=torch.int64, device=self.device)
    + out_indices = vars(self).setdefault("buffer", torch.empty((1 << 12,), dtype=torch.int64))[:bs]
prefill-locs-in-one-buffer releases=>=0.5.23
    the locs of the next prefill are written into the tensor that the batch in flight holds
    @@ paged PagedTokenToKVPoolAllocator.alloc_extend
    - out_indices = torch.empty((extend_num_tokens,), dtype=torch.int64, device=self.device)
    + out_indices = vars(self).setdefault("buffer", torch.empty((1 << 16,), dtype=torch.int64))[:extend_num_tokens]
""",
    {
        "batch": (f"{_MANAGERS}.schedule_batch",),
        "paged": ("sglang.srt.mem_cache.allocator.paged",),
        "results": (f"{_MANAGERS}.scheduler_components.batch_result_processor",),
    },
)
