"""Batches of the release's own ``ScheduleBatch``, with the few fields that allocation and window eviction read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

__all__ = ["batch_class", "held", "hold"]


class _Mode:
    """Stands for ``ForwardMode``: a decode step, or a prefill."""

    def __init__(self, decode: bool) -> None:
        self._decode = decode

    def is_decode(self) -> bool:
        return self._decode

    def is_extend(self) -> bool:
        return not self._decode


class _NoSpeculation:
    """Stands for ``SpeculativeAlgorithm``."""

    @staticmethod
    def is_none() -> bool:
        return True


def held(request: Any, name: str) -> Any:
    """A fact about a request's KV: its own attribute up to 0.5.15, of its ``kv`` record later."""
    names = vars(request)
    return names[name] if name in names else getattr(request.kv, name)


def hold(request: Any, name: str, value: int) -> None:
    """Set such a fact."""
    setattr(request if name in vars(request) else request.kv, name, value)


def batch_class(schedule_batch: Any) -> Any:
    """A subclass of the release's ``ScheduleBatch`` that is built from requests alone.

    Args:
        schedule_batch: the release's class.
    """

    class Batch(schedule_batch):  # type: ignore[misc]
        """Requests that run one step together."""

        def __init__(self, tree: Any, requests: list[Any], extend: tuple[int, int] | None = None) -> None:
            """A decode step, or with `extend` the prefill of these positions of one request."""
            self.reqs = requests
            self.tree_cache = tree
            self.req_to_token_pool = tree.req_to_token_pool
            self.token_to_kv_pool_allocator = tree.token_to_kv_pool_allocator
            self.forward_mode = _Mode(decode=extend is None)
            self.spec_algorithm = _NoSpeculation()
            self.model_config = SimpleNamespace(is_encoder_decoder=False)
            self.enable_overlap = False
            self.device = "cpu"
            self.hisparse_coordinator = None
            self.forward_iter = 0
            if extend is None:
                indices = [held(request, "req_pool_idx") for request in requests]
                lens = [held(request, "kv_committed_len") for request in requests]
                self.req_pool_indices = self.req_pool_indices_cpu = torch.tensor(indices, dtype=torch.int64)
            else:
                start, stop = extend
                lens = [stop]
                self.prefix_lens, self.extend_lens = [start], [stop - start]
                self.extend_num_tokens = stop - start
            self.seq_lens = self.seq_lens_cpu = torch.tensor(lens, dtype=torch.int64)

        def maybe_evict_swa(self) -> None:
            """Allocation evicts no window: that is an event of its own."""

        def evict_windows(self) -> None:
            """The release's preparation of a decode step."""
            super().maybe_evict_swa()

    return Batch
