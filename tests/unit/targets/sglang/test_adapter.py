"""Parts of the adapter that need no release: signatures, replaced kernels, capabilities."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from staleloc.models.config import MAX_SIZE, Config
from staleloc.sim.targets.base import TargetError
from staleloc.sim.targets.sglang.capability import hybrid_profile
from staleloc.sim.targets.sglang.drift import Call, check_calls, check_state
from staleloc.sim.targets.sglang.leaves import alloc_decode_pages, alloc_extend_pages, store_leading_bytes


class Release:
    def move(self, target: object, source: object, stream: object = None) -> None: ...

    def build(self, *, size: int, device: str = "cpu") -> None: ...


FITS = Call("move", (("target", "source"),))


@pytest.mark.parametrize(
    "call",
    [
        FITS,
        Call("move", (("tgt", "src"), ("target", "source"))),
        Call("build", keywords=frozenset({"size"})),
        Call("gone", required=False),
    ],
)
def test_a_call_that_can_be_made_fits(call: Call) -> None:
    check_calls("that", Release, (call,))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            Call("move", (("target",),)),
            "that: Release.move has parameters (target, source, stream), expected (target); "
            "the adapter needs an update",
        ),
        (
            Call("move", (("source", "target"), ("a", "b"))),
            "that: Release.move has parameters (target, source, stream), expected (source, target) or (a, b); "
            "the adapter needs an update",
        ),
        (
            Call("build", keywords=frozenset({"size", "dtype"})),
            "that: Release.build has parameters (size, device), expected (dtype, size); the adapter needs an update",
        ),
        (Call("gone"), "that: Release has no gone; the adapter needs an update"),
    ],
)
def test_a_call_that_cannot_be_made_is_one_line(call: Call, message: str) -> None:
    with pytest.raises(TargetError) as caught:
        check_calls("that", Release, (call,))
    assert str(caught.value) == message


def _cache(length: int = 7, free: int = 4) -> tuple[Any, Any]:
    mapping = torch.zeros(length, dtype=torch.int64)
    mapping[-1] = -1
    pages = SimpleNamespace(free_pages=torch.arange(free))
    kv = SimpleNamespace(full_to_swa_index_mapping=mapping)
    allocator = SimpleNamespace(full_to_swa_index_mapping=mapping, full_attn_allocator=pages, swa_attn_allocator=pages)
    return allocator, kv


def test_state_that_moved_is_one_line() -> None:
    config = Config(full_size=5, swa_size=5)
    check_state("that", *_cache(7, 5), config)
    with pytest.raises(TargetError, match=r"= \(True, 7, -1, \[4, 4\]\), expected \(True, 7, -1, \[5, 5\]\)"):
        check_state("that", *_cache(7, 4), config)
    allocator, kv = _cache()
    del kv.full_to_swa_index_mapping
    with pytest.raises(TargetError, match=r"that: .*no attribute 'full_to_swa_index_mapping'; the adapter needs"):
        check_state("that", allocator, kv, config)


def _t(*values: int) -> torch.Tensor:
    return torch.tensor(values)


def test_an_extension_fills_the_last_page_and_then_takes_free_pages() -> None:
    out = torch.zeros(8, dtype=torch.int64)
    alloc_extend_pages(_t(2, 0), _t(5, 5), _t(9, -1), _t(7, 3, 5), out, 2, 4)
    assert out.tolist() == [10, 11, 28, 12, 13, 14, 15, 20]


def test_a_decode_step_takes_a_page_only_on_a_page_boundary() -> None:
    out = torch.zeros(3, dtype=torch.int64)
    alloc_decode_pages(_t(5, 6, 9), _t(7, 12, 3), _t(8, 2), out, 4, 4)
    assert out.tolist() == [32, 13, 8]


def test_an_exhausted_free_list_gives_locs_of_no_pool() -> None:
    """The kernels read behind its end; a caller that uses the output is seen."""
    decoded, extended = torch.full((2,), -7), torch.full((5,), -7)
    alloc_decode_pages(_t(5, 9), _t(7, 3), _t(8), decoded, 2, 4)
    alloc_extend_pages(_t(0), _t(5), _t(-1), _t(8), extended, 1, 4)
    assert decoded.tolist()[0] == 32
    assert decoded.tolist()[1] > MAX_SIZE
    assert extended.tolist()[:4] == [32, 33, 34, 35]
    assert extended.tolist()[4] > MAX_SIZE


def test_a_token_is_stored_by_page_and_place() -> None:
    cache = torch.zeros(2, 2 * 576, dtype=torch.uint8)
    rows = torch.tensor([[5, 0], [6, 0]]).view(torch.bfloat16)
    store_leading_bytes(input=rows, cache=cache, indices=_t(3, 0).to(torch.int32), page_size=2, type="flashmla")
    assert cache.view(torch.int64)[:, ::72].tolist() == [[6, 0], [0, 5]]
    with pytest.raises(IndexError):
        store_leading_bytes(input=rows, cache=cache, indices=_t(4, 0), page_size=2, type="flashmla")
    with pytest.raises(NotImplementedError, match="indexer"):
        store_leading_bytes(input=rows, cache=cache, indices=_t(0, 1), page_size=2, type="indexer")


def test_a_backup_that_nobody_restores_is_no_event(tmp_path: Path) -> None:
    class Allocator:
        def alloc_extend_swa_tail(self) -> None: ...

        def backup_state(self) -> None: ...

        def restore_state(self) -> None: ...

    workers = tmp_path / "sglang" / "srt" / "speculative"
    workers.mkdir(parents=True)
    profile = hybrid_profile(Allocator, tmp_path, per_forward=True, precomputed=False)
    assert sorted(profile.missing) == ["backup", "restore", "set_mapping"]
    assert profile.missing["restore"].startswith("this release never restores a backup")
    (workers / "worker.py").write_text("allocator.restore_state(state)\n")
    profile = hybrid_profile(Allocator, tmp_path, per_forward=True, precomputed=False)
    assert sorted(profile.missing) == ["set_mapping"]
    assert {"backup", "restore"} <= profile.events
