"""What a request's prefix lock pins: the difference between two trees, told apart by requests."""

from __future__ import annotations

from staleloc.models.disaggregation import Tokens
from staleloc.sim.parts.decode_node.rounds import Pins
from staleloc.sim.targets.engine import NodeView, RequestView


def tree(*nodes: tuple[int, int, int, bool]) -> list[NodeView]:
    """A chain of nodes of two tokens: first full loc, full locks, SWA locks, and whether it has SWA slots."""
    return [
        NodeView(
            node=number,
            parent=number - 1 or None,
            tokens=(1, 1),
            full=(first, first + 1),
            swa=(first, first + 1) if swa else None,
            host_full=None,
            host_swa=None,
            full_locks=full_locks,
            swa_locks=swa_locks,
        )
        for number, (first, full_locks, swa_locks, swa) in enumerate(nodes, 1)
    ]


def view(*locs: int) -> RequestView:
    return RequestView(tuple(locs), shared=len(locs), evicted=0)


def test_a_lock_pins_what_could_be_given_up_before() -> None:
    """All of its prefix in the full pool, in the SWA pool what it locks there."""
    before = tree((2, 0, 0, True), (4, 0, 0, True))
    request = view(2, 3, 4, 5)
    pins = Pins(before, tree((2, 1, 0, True), (4, 1, 1, True)), [request])
    assert pins.take(request, 4) == Tokens(4, 2)


def test_what_somebody_locks_already_is_not_pinned_again() -> None:
    """It was not in the budgets."""
    request = view(2, 3, 4, 5)
    pins = Pins(tree((2, 1, 1, True), (4, 0, 0, True)), tree((2, 2, 2, True), (4, 1, 1, True)), [request])
    assert pins.take(request, 4) == Tokens(2, 2)


def test_rows_that_gave_way_to_the_request_are_not_pinned() -> None:
    """Making room for it may take SWA slots of its own prefix in front of the window: they are free, not locked."""
    request = view(2, 3, 4, 5)
    pins = Pins(tree((2, 0, 0, True), (4, 0, 0, True)), tree((2, 1, 0, False), (4, 1, 1, True)), [request])
    assert pins.take(request, 4) == Tokens(4, 2)


def test_the_first_of_two_requests_pins_a_shared_prefix() -> None:
    """If both may have pinned the same SWA slots, nobody can tell which one did."""
    first, second = view(2, 3), view(2, 3, 4, 5)
    pins = Pins(tree((2, 0, 0, True), (4, 0, 0, True)), tree((2, 2, 0, True), (4, 1, 1, True)), [first, second])
    assert pins.take(first, 2) == Tokens(2, 0)
    assert pins.take(second, 4) == Tokens(2, 2)
    both = Pins(tree((2, 0, 0, True)), tree((2, 2, 2, True)), [first, first])
    assert both.take(first, 2) is None
