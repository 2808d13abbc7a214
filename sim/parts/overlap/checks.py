"""Checks of two batches in flight: who ends with a result, and what a batch holds until it has run."""

from __future__ import annotations

from ....models.overlap import Flight
from ...core.divergence import Divergence
from ...targets.overlap import FlightView
from ..check import check, listed
from .step import OverlapStep

__all__ = ["check_results", "check_held", "check_last_token"]


@check("results", order=16)
def check_results(step: OverlapStep) -> Divergence | None:
    """Results: a result ends the requests that it completes, those that were aborted, and nobody who left before."""
    if step.ended is None or sorted(step.ended) == sorted(step.expected):
        return None
    what = f"requests {listed(sorted(step.ended))} ended with their results, expected {listed(sorted(step.expected))}"
    return step.diverges("leak", what, "a result counts once, for the request that it was computed for")


@check("held", order=50)
def check_held(step: OverlapStep) -> Divergence | None:
    """Held: a batch in flight has the requests, the locs and the lengths that it was launched with."""
    found, known = step.overlap.raw_flights(), step.world.flights
    if len(found) != len(known):
        return step.diverges("leak", f"{len(found)} batches are in flight, expected {len(known)}")
    for view, flight in zip(found, known, strict=True):
        divergence = _changed(step, view, flight)
        if divergence is not None:
            return divergence
    return None


@check("last-token", order=189)
def check_last_token(step: OverlapStep) -> Divergence | None:
    """Last token: a request whose last token is in flight is not given up for want of a slot.

    It takes no other slot, and the next result frees all that it has.
    """
    if not step.given_up_late:
        return None
    what = f"request {step.given_up_late[0]} was given up for want of a slot while its last token was in flight"
    return step.diverges("over-admission", what, "it wants no other slot: its client gets an error for a whole answer")


def _changed(step: OverlapStep, view: FlightView, flight: Flight) -> Divergence | None:
    if list(view.requests) != flight.requests:
        what = f"a batch in flight has requests {listed(view.requests)}, expected {listed(flight.requests)}"
        return step.diverges("leak", what, "what its forward samples is attributed to others")
    lens = [stop for _, _, stop in flight.spans]
    if list(view.lens) != lens:
        what = f"a batch in flight has requests of {listed(view.lens)} tokens, expected {listed(lens)}"
        return step.diverges("wrong-content", what, "its forward attends to other tokens, or writes at their places")
    locs = [loc for part in flight.locs for loc in part]
    if list(view.locs) != locs:
        what = f"a batch in flight writes to full locs {listed(view.locs)}, expected {listed(locs)}"
        return step.diverges(
            "use-after-free", what, "the locs that it holds are not those that its requests were given"
        )
    return None
