"""Test doubles for a speculative step of a release: its batch, its workers, and the target's verdict."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch

from .leaves import Leaf
from .spec_kernels import KERNELS

__all__ = ["SPEC_ANNOUNCED", "VERDICT", "spec_batch_class", "spec_leaves", "uncompiled"]

_PACKAGES = ("sglang.kernels.ops.speculative.", "sglang.srt.speculative.", "sglang.srt.mem_cache.")
_KERNEL = "Triton kernel that copies locs; the same copies in torch (conformance: tests/release)"


class _Verdict:
    """The accepted nodes: chosen by the tape, instead of a comparison of logits."""

    def say(self, paths: Sequence[Sequence[int]], tokens: Sequence[Sequence[int]], nodes: int) -> None:
        """The paths of the next verification, what is appended to each request, and how many nodes each has."""
        self._paths, self._tokens, self._nodes = paths, tokens, nodes

    def __call__(
        self, predicts: torch.Tensor, accept_index: torch.Tensor, accept_token_num: torch.Tensor, **_tree: Any
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Called as ``verify_tree_greedy_func`` is: fills the three tensors and returns them."""
        for index, (path, tokens) in enumerate(zip(self._paths, self._tokens, strict=True)):
            nodes = torch.tensor(path) + index * self._nodes
            accept_index[index, : len(path)] = nodes.to(accept_index.dtype)
            predicts[nodes] = torch.tensor(tokens, dtype=predicts.dtype)
            accept_token_num[index] = len(path) - 1
        return predicts, accept_index, accept_token_num


VERDICT = _Verdict()


@contextmanager
def uncompiled() -> Iterator[None]:
    """While inside, ``torch.compile`` returns functions as they are written."""
    keep = torch.compile
    torch.compile = lambda *_args, **_options: lambda function: function  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.compile = keep


def _kernel(module: str, name: str) -> Leaf:
    return Leaf(module, name, KERNELS[name], "those that have it", _KERNEL)


_JUDGED = Leaf(
    "sglang.srt.speculative.eagle_info",
    "verify_tree_greedy_func",
    VERDICT,
    "up to 0.5.13",
    "compares draft and target; the tape says which nodes are accepted",
)

SPEC_ANNOUNCED = (
    *(_kernel("sglang.srt.speculative", name) for name in KERNELS),
    _JUDGED,
    Leaf(
        "torch", "compile", None, "all", "while the speculative modules are imported: functions run as they are written"
    ),
)
"""The replacements for speculative decode, for reports."""


def spec_leaves() -> tuple[Leaf, ...]:
    """A replacement for each kernel, wherever a module that is loaded by now has it by name."""
    modules = [name for name in sorted(sys.modules) if name.startswith(_PACKAGES)]
    kernels = [_kernel(module, name) for module in modules for name in KERNELS if name in vars(sys.modules[module])]
    return (*kernels, _JUDGED)


class _Sampling(SimpleNamespace):
    """Stands for ``SamplingBatchInfo``: greedy, and nothing besides."""

    def __len__(self) -> int:
        return int(self.count)


def _sampling(count: int) -> _Sampling:
    return _Sampling(
        count=count,
        penalizer_orchestrator=SimpleNamespace(is_required=False),
        has_custom_logit_processor=False,
        logit_bias=None,
        is_all_greedy=True,
    )


class _DecodeMode:
    """Stands for ``ForwardMode`` before a step is prepared."""

    @staticmethod
    def is_idle() -> bool:
        return False

    @staticmethod
    def is_decode() -> bool:
        return True

    @staticmethod
    def is_extend() -> bool:
        return False


def spec_batch_class(batch: Any) -> Any:
    """A subclass of `batch_class`'s that decodes speculatively.

    Args:
        batch: the class from `engine_batch.batch_class`.
    """

    class SpecBatch(batch):  # type: ignore[misc]
        """Requests that run one speculative step together."""

        is_spec_v2 = False

        def __init__(self, tree: Any, requests: list[Any], lens: Sequence[int], algorithm: Any, v2: bool) -> None:
            """A step of requests that have KV for so many tokens.

            Args:
                tree: the release's prefix tree.
                requests: its requests.
                lens: tokens each has KV for.
                algorithm: one of its ``SpeculativeAlgorithm``.
                v2: rows are kept ahead of the committed tokens.
            """
            super().__init__(tree, requests)
            self.is_spec_v2 = self.enable_overlap = v2
            self.spec_algorithm = algorithm
            self.forward_mode = _DecodeMode()
            self.seq_lens = torch.tensor(lens, dtype=torch.int64)
            self.seq_lens_cpu = self.seq_lens.clone()
            self.seq_lens_sum = sum(lens)
            self.input_ids = torch.zeros(len(requests), dtype=torch.int64)
            self.sampling_info = _sampling(len(requests))
            self.spec_info = SimpleNamespace(verify_done=None, hidden_states=None, positions=None)
            self.model_config = SimpleNamespace(is_encoder_decoder=False, vocab_size=1 << 31, think_end_id=None)
            self.multimodal_inputs = [None] * len(requests)
            self.has_grammar = self.return_logprob = False

        def maybe_evict_swa(self) -> None:
            """The preparation of a step evicts windows."""
            self.evict_windows()

    return SpecBatch
