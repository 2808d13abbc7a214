"""The virtual graph: what a capture notes, what a replay does, and what no graph can hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from staleloc.sim.targets.builtin.policies import Memo
from staleloc.sim.targets.builtin.virtual_graph import GraphError, VirtualGraph


class Scene:
    """A table, static locs, and a buffer that rows are written to."""

    def __init__(self) -> None:
        self.table = torch.arange(0, 100, 10)
        self.locs = torch.tensor([1, 2])
        self.buffer = torch.zeros(100)
        self.rows = torch.ones(2)
        self.graph = VirtualGraph()

    def forward(self) -> Tensor:
        swa_locs = self.table[self.locs]
        self.buffer.index_copy_(0, swa_locs, self.rows.clone())
        return swa_locs


def test_a_capture_runs_nothing() -> None:
    """Buffers stay as they are, and what the graph computes holds no slot yet."""
    scene = Scene()
    with scene.graph.capture():
        swa_locs = scene.forward()
    assert not scene.buffer.any()
    assert max(swa_locs.tolist()) < 0
    assert len(scene.graph) == 3


def test_a_replay_reads_what_its_inputs_hold_now_and_writes_where_it_was_captured() -> None:
    """New locs and a new table, in the old storage; the result is in the tensor that the capture gave out."""
    scene = Scene()
    with scene.graph.capture():
        swa_locs = scene.forward()
    address = swa_locs.data_ptr()
    for locs, entry in (([1, 2], 10), ([3, 2], 77)):
        scene.locs.copy_(torch.tensor(locs))
        scene.table[locs[0]] = entry
        scene.buffer.zero_()
        scene.graph.replay()
        assert swa_locs.tolist() == [entry, 20]
        assert scene.buffer.nonzero().flatten().tolist() == [*sorted([entry, 20])]
    assert swa_locs.data_ptr() == address


def test_a_tensor_that_took_the_place_of_an_input_is_not_read() -> None:
    """A graph has addresses, not names."""
    scene = Scene()
    with scene.graph.capture():
        swa_locs = scene.forward()
    scene.locs = torch.tensor([3, 4])
    scene.graph.replay()
    assert swa_locs.tolist() == [10, 20]


def test_a_cache_hit_is_not_in_the_graph() -> None:
    """That is the pollution: the answer from before the capture is served for every batch."""
    scene = Scene()
    memo = Memo(lambda locs: scene.table[locs], 0)
    memo.translate(scene.locs, 0)
    with scene.graph.capture():
        polluted = memo.translate(scene.locs, 0)
    memo.begin_forward()
    clean = VirtualGraph()
    with clean.capture():
        translated = memo.translate(scene.locs, 0)
    scene.locs.copy_(torch.tensor([5, 6]))
    scene.graph.replay()
    clean.replay()
    assert (len(scene.graph), len(clean)) == (0, 1)
    assert (polluted.tolist(), translated.tolist()) == ([10, 20], [50, 60])


def test_views_and_branches_are_taken_once() -> None:
    """A view shows the storage it was made of; a branch is decided at the capture."""
    scene = Scene()
    flag = True
    with scene.graph.capture():
        part = scene.table[scene.locs][1:] if flag else scene.locs
    flag = False
    scene.locs[1] = 7
    scene.graph.replay()
    assert part.tolist() == [70]
    assert len(scene.graph) == 1


def test_work_in_place_on_a_result_is_done_again_after_it() -> None:
    """In the order of the capture."""
    scene = Scene()
    with scene.graph.capture():
        swa_locs = scene.table[scene.locs]
        swa_locs += 1
    for _ in range(2):
        scene.graph.replay()
        assert swa_locs.tolist() == [11, 21]


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (lambda scene: scene.locs.tolist(), "the host would have to wait"),
        (lambda scene: scene.locs.numpy(), "the host would have to wait"),
        (lambda scene: scene.locs[0].item(), "the host would have to wait"),
        (lambda scene: bool(scene.rows[0]), "the host would have to wait"),
        (lambda scene: scene.locs + torch.tensor([1, 2]), "its value comes from the host"),
        (lambda scene: scene.table[scene.table > 30], "the shape of its result depends on values"),
        (lambda scene: scene.table.nonzero(), "the shape of its result depends on values"),
        (lambda scene: scene.table.masked_select(scene.table > 30), "the shape of its result depends on values"),
        (lambda scene: scene.table.unique(), "the shape of its result depends on values"),
    ],
)
def test_what_no_graph_can_hold_fails_the_capture(step: Callable[[Scene], object], reason: str) -> None:
    """As it does on a GPU, with the reason."""
    scene = Scene()
    with pytest.raises(GraphError, match=reason), scene.graph.capture():
        step(scene)
    assert scene.locs.tolist() == [1, 2], "outside of a capture the host may read"
