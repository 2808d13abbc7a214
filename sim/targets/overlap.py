"""The protocol of a target whose scheduler has two batches in flight, in integers.

The driver takes the two halves of a turn of the scheduler's loop one by one: it launches the next batch, and processes
the results of the batch before. The target decides what the next batch is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from .scheduler import DecodeRound, PrefillRound, SchedulerTarget

__all__ = ["OVERLAP_CALLS", "FlightView", "Launched", "OverlapTarget"]

OVERLAP_CALLS: tuple[str, ...] = ("submit", "launch", "process", "abort", "transfer_done")
"""Kinds of the events that an `OverlapTarget` may execute."""


@dataclass(frozen=True)
class Launched:
    """The batch that was formed. It has prompts or requests that decode, or nobody.

    Attributes:
        prefill: the prompts.
        decode: the result of a decode round; None if none was tried.
        finishing: running requests that it leaves out because the results in flight are their last.
    """

    prefill: PrefillRound = field(default_factory=PrefillRound)
    decode: DecodeRound | None = None
    finishing: tuple[int, ...] = ()


@dataclass(frozen=True)
class FlightView:
    """The raw state of a batch in flight, as the batch itself holds it.

    Attributes:
        requests: its requests, in order.
        locs: the full locs that it writes, one request after the other.
        lens: how many tokens each request has with it.
    """

    requests: tuple[int, ...]
    locs: tuple[int, ...]
    lens: tuple[int, ...]


class OverlapTarget(SchedulerTarget, Protocol):
    """The real scheduler's overlap loop under test.

    An abort of a request that runs takes effect with its next result. `write` of the batch that was launched last
    writes to the locs that the batch holds.
    """

    def launch(self) -> Launched:
        """Form the next batch and allocate its slots (``get_next_batch_to_run``)."""

    def sampled(self, tokens: list[int]) -> None:
        """The batch's forward is in flight and will sample these tokens, one a request; that of a chunk in the middle
        of a prompt counts for nothing."""

    def process(self) -> tuple[int, ...]:
        """Process the results of the oldest batch in flight (``process_batch_result``); the requests that ended."""

    def raw_flights(self) -> list[FlightView]:
        """The batches in flight, the oldest first."""
