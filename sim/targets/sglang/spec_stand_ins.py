"""Test doubles for a speculative step of a release: its kernels, its batch, its workers, and the target's verdict.

The kernels are Triton kernels that copy locs between a request table and vectors, in plain torch. Each takes the
arguments of SGLang's kernel of that name, strides and block widths included, and is launched over one program a request
(or one a loc). Requests come one after the other, where a GPU runs them in any order.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from .leaves import Kernel, Leaf

__all__ = ["KERNELS", "SPEC_ANNOUNCED", "VERDICT", "spec_batch_class", "spec_leaves", "uncompiled"]


def assign_req_to_token_pool(
    rows: Tensor, table: Tensor, start: Tensor, end: Tensor, locs: Tensor, *_widths: int
) -> None:
    """Write `locs`, one request after the other, into positions `start` to `end` of the requests' rows.

    Args:
        rows: int ``[batch]``, rows of the table.
        table: int32 ``[rows, positions]``, changed in place.
        start: int ``[batch]``.
        end: int ``[batch]``.
        locs: int ``[sum(end - start)]``.
    """
    done = 0
    for row, first, stop in zip(rows.tolist(), start.tolist(), end.tolist(), strict=True):
        _span(table, row, first, stop)[:] = locs[done : done + stop - first].to(table.dtype)
        done += stop - first


def _span(table: Tensor, row: int, first: int, stop: int) -> Tensor:
    """Positions of a row, addressed as the kernels do: behind its end comes the next row.

    Raises:
        IndexError: the positions reach beyond the table.
    """
    begin, width = row * table.shape[1], table.shape[1]
    if not 0 <= begin + first <= begin + stop <= table.numel():
        raise IndexError(f"positions {first} to {stop} of row {row} lie outside a table of {table.shape[0]} x {width}")
    return table.view(-1)[begin + first : begin + stop]


def assign_extend_cache_locs(
    rows: Tensor, table: Tensor, start: Tensor, end: Tensor, out: Tensor, *_widths: int
) -> None:
    """Read positions `start` to `end` of the requests' rows into `out`; the reverse of `assign_req_to_token_pool`."""
    done = 0
    for row, first, stop in zip(rows.tolist(), start.tolist(), end.tolist(), strict=True):
        out[done : done + stop - first] = _span(table, row, first, stop).to(out.dtype)
        done += stop - first


def assign_draft_cache_locs_contiguous(
    rows: Tensor, table: Tensor, lens: Tensor, out: Tensor, _width: int, topk: int, steps: int, **_unused: Any
) -> None:
    """Read the ``topk * steps`` positions behind each request's tokens into `out`."""
    assign_extend_cache_locs(rows, table, lens, lens + topk * steps, out)


def assign_draft_cache_locs(
    rows: Tensor,
    table: Tensor,
    lens: Tensor,
    extend_lens: Tensor,
    branch_pages: Tensor,
    locs: Tensor,
    source: Tensor | None,
    target: Tensor | None,
    _last_page_ends: Tensor | None,
    duplicates: int,
    _width: int,
    topk: int,
    steps: int,
    page_size: int,
    *_widths: int,
) -> None:
    """Write a draft's locs into the requests' rows, and where each branch has pages of its own sort out which is what.

    Args:
        rows: int ``[batch]``.
        table: int32 ``[rows, positions]``, changed in place.
        lens: int ``[batch]``, tokens each request has.
        extend_lens: int ``[batch]``, locs each request got; read with pages and branches only, like what follows.
        branch_pages: int ``[batch]``, pages of each branch.
        locs: int64, the locs one request after the other. Its front is overwritten with the locs that the draft
            writes, branch by branch.
        source: where to copy the last page's tokens from, for each request and branch but the first; filled.
        target: where they go; filled.
        duplicates: length of these two.
        topk: branches.
        steps: tokens a branch.
        page_size: tokens a page.
    """
    own_pages = page_size != 1 and topk != 1
    extent = extend_lens if own_pages else lens * 0 + topk * steps
    assign_req_to_token_pool(rows, table, lens, lens + extent, locs.clone())
    if not own_pages or not duplicates or source is None or target is None:
        return
    done = copied = 0
    for row, length, pages in zip(rows.tolist(), lens.tolist(), branch_pages.tolist(), strict=True):
        last = length % page_size
        base = length - last
        for branch in range(topk):
            start = base + branch * pages * page_size
            if branch:
                source[copied : copied + last] = _span(table, row, base, base + last)
                target[copied : copied + last] = _span(table, row, start, start + last)
                copied += last
            locs[done : done + steps] = _span(table, row, start + last, start + last + steps).to(locs.dtype)
            done += steps


def align_evict_mask_to_page_size(lens: Tensor, mask: Tensor, page_size: int, nodes: int, _width: int) -> None:
    """Keep the slots on the page of a chain's last accepted token.

    Args:
        lens: int ``[batch]``, tokens each request has.
        mask: bool ``[batch * nodes]``, which nodes are to be freed; changed in place.
        page_size: tokens a page.
        nodes: nodes a request.
    """
    for index, length in enumerate(lens.tolist()):
        row = mask[index * nodes : (index + 1) * nodes]
        kept = nodes - int(row.sum())
        start = (length + kept - 1) // page_size * page_size - length
        row[max(start, 0) : max(0, min(start + page_size, nodes))] = False


def get_target_cache_loc(
    target: Tensor, to_free: Tensor, drafts: Tensor, free_counts: Tensor, locs: Tensor, nodes: int, *_widths: int
) -> None:
    """Split each request's locs: the front takes the accepted tokens, the end is freed.

    Args:
        target: int64 ``[sum(drafts + 1)]``, filled.
        to_free: int64 ``[sum(free_counts)]``, filled.
        drafts: int ``[batch]``, accepted tokens without the first node.
        free_counts: int ``[batch]``.
        locs: int64 ``[batch * nodes]``.
        nodes: nodes a request.
    """
    done = freed = 0
    for index, (drafted, count) in enumerate(zip(drafts.tolist(), free_counts.tolist(), strict=True)):
        row = locs[index * nodes : (index + 1) * nodes]
        target[done : done + drafted + 1] = row[: drafted + 1]
        to_free[freed : freed + count] = row[nodes - count :]
        done, freed = done + drafted + 1, freed + count


def fill_accept_out_cache_loc(accepted: Tensor, locs: Tensor, out: Tensor, _width: int) -> None:
    """Write the locs of the accepted nodes to the front of `out`.

    Args:
        accepted: int ``[n]`` or ``[batch, width]``, indices into `locs`, -1 for none.
        locs: int64.
        out: int64, at least as long as there are indices.
    """
    kept = accepted.flatten()
    kept = kept[kept != -1]
    out[: len(kept)] = locs[kept.long()]


def _window(rows: Tensor, table: Tensor, start: Tensor, end: Tensor) -> Tensor:
    out = start.new_empty(int((end - start).sum()), dtype=start.dtype).long()
    assign_extend_cache_locs(rows, table, start, end, out)
    return out


def extend_cache_locs(
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    start_offset: Tensor,
    end_offset: Tensor | None = None,
    batch_size: int = 0,
    draft_token_num: int = 0,
    device: object = None,
    **_unused: Any,
) -> Tensor:
    """The result of ``assign_extend_cache_locs_func`` and its uniform variant: the locs of these positions.

    Args:
        req_pool_indices: int ``[batch]``.
        req_to_token: int32 ``[rows, positions]``.
        start_offset: int ``[batch]``.
        end_offset: int ``[batch]``; without it `draft_token_num` positions a request.
    """
    end = start_offset + draft_token_num if end_offset is None else end_offset
    return _window(req_pool_indices, req_to_token, start_offset, end)


KERNELS: dict[str, Any] = {
    "align_evict_mask_to_page_size": Kernel(align_evict_mask_to_page_size),
    "assign_draft_cache_locs": Kernel(assign_draft_cache_locs),
    "assign_draft_cache_locs_contiguous": Kernel(assign_draft_cache_locs_contiguous),
    "assign_draft_cache_locs_page_size_1": Kernel(assign_draft_cache_locs_contiguous),
    "assign_extend_cache_locs": Kernel(assign_extend_cache_locs),
    "assign_extend_cache_locs_func": extend_cache_locs,
    "assign_extend_cache_locs_uniform_func": extend_cache_locs,
    "assign_req_to_token_pool": Kernel(assign_req_to_token_pool),
    "fill_accept_out_cache_loc": Kernel(fill_accept_out_cache_loc),
    "fill_accepted_out_cache_loc": Kernel(fill_accept_out_cache_loc),
    "get_target_cache_loc": Kernel(get_target_cache_loc),
}
"""Name in a release -> its replacement. Those that end in ``_func`` are called, the others launched."""


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
        batch: the class from `engine_release.batch_class`.
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
