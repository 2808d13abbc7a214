"""Triton kernels that speculative steps launch, in plain torch: they copy locs between a request table and vectors.

Each takes the arguments of SGLang's kernel of that name, strides and block widths included, and is launched over
one program a request (or one a loc). Requests come one after the other, where a GPU runs them in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

__all__ = ["KERNELS"]


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
        table[row, first:stop] = locs[done : done + stop - first].to(table.dtype)
        done += stop - first


def assign_extend_cache_locs(
    rows: Tensor, table: Tensor, start: Tensor, end: Tensor, out: Tensor, *_widths: int
) -> None:
    """Read positions `start` to `end` of the requests' rows into `out`; the reverse of `assign_req_to_token_pool`."""
    done = 0
    for row, first, stop in zip(rows.tolist(), start.tolist(), end.tolist(), strict=True):
        out[done : done + stop - first] = table[row, first:stop].to(out.dtype)
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
                source[copied : copied + last] = table[row, base : base + last]
                target[copied : copied + last] = table[row, start : start + last]
                copied += last
            locs[done : done + steps] = table[row, start + last : start + last + steps].to(locs.dtype)
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


class _Kernel:
    """A plain function that is launched like a Triton kernel: ``kernel[grid](...)``."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function

    def __getitem__(self, _grid: object) -> Callable[..., None]:
        return self.function


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
    "align_evict_mask_to_page_size": _Kernel(align_evict_mask_to_page_size),
    "assign_draft_cache_locs": _Kernel(assign_draft_cache_locs),
    "assign_draft_cache_locs_contiguous": _Kernel(assign_draft_cache_locs_contiguous),
    "assign_draft_cache_locs_page_size_1": _Kernel(assign_draft_cache_locs_contiguous),
    "assign_extend_cache_locs": _Kernel(assign_extend_cache_locs),
    "assign_extend_cache_locs_func": extend_cache_locs,
    "assign_extend_cache_locs_uniform_func": extend_cache_locs,
    "assign_req_to_token_pool": _Kernel(assign_req_to_token_pool),
    "fill_accept_out_cache_loc": _Kernel(fill_accept_out_cache_loc),
    "fill_accepted_out_cache_loc": _Kernel(fill_accept_out_cache_loc),
    "get_target_cache_loc": _Kernel(get_target_cache_loc),
}
"""Name in a release -> its replacement. Those that end in ``_func`` are called, the others launched."""
