"""The model of captured graphs: where rows belong, which graph holds a batch, and whose translation was served."""

from __future__ import annotations

import pytest

from staleloc.models.graphs import Graphs, Run, misplaced


def run(event: int, locs: tuple[int, ...], swa: tuple[int, ...], captured: int = 0) -> Run:
    return Run(event, "standard", captured, locs, swa)


@pytest.mark.parametrize(
    ("written", "slots", "row"),
    [
        ((5, 6), (5, 6), None),
        ((5, 6, 0, 0), (5, 6), None),
        ((5, 7), (5, 6), 1),
        ((5, 6, 0, 9), (5, 6), 3),
        ((5,), (5, 6), 1),
        ((), (), None),
    ],
)
def test_each_row_goes_to_its_slot_and_the_rest_to_the_dummy_slot(
    written: tuple[int, ...], slots: tuple[int, ...], row: int | None
) -> None:
    """The first row elsewhere, behind the batch too, and the first that was not written at all."""
    assert misplaced(written, slots) == row


def test_the_smallest_graph_that_holds_a_batch_is_the_one() -> None:
    """Of its own runner, as captured last."""
    graphs = Graphs()
    graphs.capture(0, "standard", 4)
    graphs.capture(1, "standard", 2)
    graphs.capture(2, "piecewise", 3)
    graphs.capture(3, "standard", 4)
    assert graphs.fitting("standard", 1) == (2, 1)
    assert graphs.fitting("standard", 3) == (4, 3)
    assert graphs.fitting("standard", 5) is None
    assert graphs.fitting("breakable", 1) is None
    assert graphs.has("piecewise", 3)
    assert not graphs.has("piecewise", 2)


def test_an_answer_from_before_the_capture_is_told_from_a_later_one() -> None:
    """If both had it, the one before the capture: a graph that translates serves neither."""
    graphs = Graphs()
    graphs.ran(run(1, (4,), (8,), captured=0))
    graphs.capture(2, "standard", 1)
    graphs.ran(run(3, (5,), (9,), captured=2))
    now = run(4, (6,), (7,), captured=2)
    early, late, dummy = (graphs.served(now, [slot]) for slot in (8, 9, 0))
    assert early is not None
    assert (early.event, early.warm_up) == (1, False)
    assert late is not None
    assert late.event == 3
    assert dummy is not None
    assert (dummy.event, dummy.warm_up) == (2, True)
    assert graphs.served(now, [3]) is None


def test_a_padded_answer_is_compared_with_its_padding() -> None:
    """A run of one token in a graph of two had the dummy slot behind it."""
    graphs = Graphs()
    graphs.ran(run(1, (4,), (8,)))
    assert graphs.served(run(2, (5, 6), (3, 4)), [8, 0]) is not None
    assert graphs.served(run(2, (5, 6), (3, 4)), [8, 4]) is None


def test_a_row_that_was_left_is_that_of_the_last_run_that_had_it() -> None:
    """Row by row, for what a larger batch leaves behind a smaller one."""
    graphs = Graphs()
    graphs.ran(run(1, (4, 5), (8, 9)))
    graphs.ran(run(2, (6, 5), (7, 9)))
    left = graphs.left_by(run(3, (6,), (7,)), 1, 9)
    assert left is not None
    assert left.event == 2
    assert graphs.left_by(run(3, (6,), (7,)), 1, 8) is None


def test_a_loc_that_moved_between_two_runs_is_noticed() -> None:
    """The same full loc with another SWA loc."""
    graphs = Graphs()
    assert not graphs.ran(run(1, (4, 5), (8, 9)))
    assert not graphs.ran(run(2, (4, 6), (8, 7)))
    assert graphs.ran(run(3, (5,), (3,)))


def test_the_longest_batch_of_a_graph_counts_no_warm_up() -> None:
    """A capture runs as many rows as the graph has, and that is no batch."""
    graphs = Graphs()
    graphs.capture(0, "standard", 4)
    assert graphs.longest("standard", 0) == 0
    graphs.ran(run(1, (4, 5), (8, 9), captured=0))
    assert graphs.longest("standard", 0) == 2
    assert graphs.longest("standard", 7) == 0
