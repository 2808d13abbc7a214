"""Kernels of speculative steps in plain torch, and what stands around a release's speculative code."""

from __future__ import annotations

import torch
from torch import Tensor

from staleloc.sim.targets.sglang.spec_stand_ins import KERNELS, VERDICT, uncompiled


def t(*values: int) -> Tensor:
    return torch.tensor(values)


def table() -> Tensor:
    """Two rows of eight positions; row 1 holds 10, 11, ..."""
    rows = torch.zeros(2, 8, dtype=torch.int32)
    rows[1] = torch.arange(10, 18)
    return rows


def test_locs_are_written_request_after_request() -> None:
    rows = table()
    KERNELS["assign_req_to_token_pool"][(2,)](t(1, 0), rows, t(6, 0), t(8, 1), t(70, 71, 72), 8, 2)
    assert rows[1].tolist() == [10, 11, 12, 13, 14, 15, 70, 71]
    assert rows[0].tolist() == [72, 0, 0, 0, 0, 0, 0, 0]


def test_locs_are_read_back_by_end_or_by_count() -> None:
    assert KERNELS["assign_extend_cache_locs_func"](t(1, 1), table(), t(2, 5), t(4, 6)).tolist() == [12, 13, 15]
    found = KERNELS["assign_extend_cache_locs_uniform_func"](
        req_pool_indices=t(1), req_to_token=table(), start_offset=t(3), batch_size=1, draft_token_num=2, device="cpu"
    )
    assert found.tolist() == [13, 14]


def test_branches_follow_each_other_behind_the_tokens() -> None:
    out = torch.zeros(4, dtype=torch.int64)
    KERNELS["assign_draft_cache_locs_contiguous"][(1,)](t(1), table(), t(3), out, 8, 2, 2)
    assert out.tolist() == [13, 14, 15, 16]


def test_branches_with_pages_of_their_own_copy_the_last_page() -> None:
    """Three tokens, pages of two, two branches of one step: the second begins with a copy of the third token."""
    rows, locs = table(), t(50, 60, 61)
    source, target = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    KERNELS["assign_draft_cache_locs"][(1,)](
        t(1), rows, t(3), t(3), t(1), locs, source, target, t(1), 1, 8, 2, 1, 2, 1, 4
    )
    assert rows[1].tolist() == [10, 11, 12, 50, 60, 61, 16, 17]
    assert (source.tolist(), target.tolist()) == ([12], [60])
    assert locs[:2].tolist() == [50, 61]


def test_the_page_of_the_last_accepted_token_is_kept() -> None:
    """Five tokens, pages of four, four nodes of which one is accepted: positions 5 to 7 stay, 8 goes."""
    mask = torch.tensor([False, True, True, True])
    KERNELS["align_evict_mask_to_page_size"][(1,)](t(5), mask, 4, 4, 4)
    assert mask.tolist() == [False, False, False, True]


def test_accepted_tokens_take_the_front_and_the_end_is_freed() -> None:
    target, freed = torch.zeros(3, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)
    KERNELS["get_target_cache_loc"][(2,)](target, freed, t(1, 0), t(0, 2), t(1, 2, 3, 4, 5, 6), 3, 4, 2)
    assert (target.tolist(), freed.tolist()) == ([1, 2, 4], [5, 6])


def test_locs_of_accepted_nodes_are_packed() -> None:
    out = torch.zeros(4, dtype=torch.int64)
    KERNELS["fill_accept_out_cache_loc"][(4,)](torch.tensor([[0, 2], [-1, 3]]), t(5, 6, 7, 8), out, 4)
    assert out.tolist() == [5, 7, 8, 0]


def test_the_verdict_is_what_the_tape_says() -> None:
    """Node 2 of the first request is accepted after its bonus, and of the second nothing but the bonus."""
    VERDICT.say([[0, 2], [0]], [[41, 42], [43]], nodes=3)
    predicts, index, counts = torch.zeros(7, dtype=torch.int32), torch.full((2, 3), -1), torch.zeros(2)
    VERDICT(predicts, index, counts, topk=2)
    assert index.tolist() == [[0, 2, -1], [3, -1, -1]]
    assert [predicts[0], predicts[2], predicts[3]] == [41, 42, 43]
    assert counts.tolist() == [1, 0]


def test_functions_stay_as_they_are_written() -> None:
    """Only while the release's modules are imported."""
    keep = torch.compile

    def plain() -> None: ...

    with uncompiled():
        assert torch.compile(dynamic=True)(plain) is plain
    assert torch.compile is keep
