"""The protocol of a target whose scheduler admits by its own budgets, in integers.

The driver says when a round begins and when a request ends. The target decides who is admitted and with how many
tokens, who is retracted, and which windows are evicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .engine import EngineTarget

__all__ = ["MAX_REQUESTS", "SCHEDULER_CALLS", "DecodeRound", "Grant", "PrefillRound", "SchedulerTarget"]

SCHEDULER_CALLS: tuple[str, ...] = ("submit", "prefill_round", "decode_round", "finish", "abort", "transfer_done")
"""Kinds of the events that a `SchedulerTarget` may execute."""

MAX_REQUESTS = 16
"""Requests that a scheduler has at one time."""


@dataclass(frozen=True)
class Grant:
    """One request of a prefill batch.

    Attributes:
        request: the request.
        cached: tokens that need no prefill, as `Admission.cached`; of a request between two chunks, those computed.
        loaded: how many of them come from the host.
        count: tokens that the batch computes.
    """

    request: int
    cached: int
    loaded: int
    count: int


@dataclass(frozen=True)
class PrefillRound:
    """The result of a prefill round: its batch, in order; empty if nobody could be admitted."""

    grants: tuple[Grant, ...] = ()


@dataclass(frozen=True)
class DecodeRound:
    """The result of a decode round.

    Attributes:
        decoded: the requests that got a slot for one more token.
        retracted: those that gave up theirs and wait again, in the order in which they queue.
        failed: those that were given up because the pools cannot hold them alone.
    """

    decoded: tuple[int, ...] = ()
    retracted: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()


class SchedulerTarget(EngineTarget, Protocol):
    """The real scheduler's admission, allocation and retraction under test.

    `EngineTarget` says what the methods mean that both have. A round first stores the last chunk in the prefix tree, if
    a prompt is computed in part.
    """

    def aborts_chunked(self) -> bool:
        """Whether this scheduler aborts a request between two chunks."""

    def submit(self, request: int, tokens: list[int], most: int) -> int | None:
        """A request for `most` output tokens at most arrives; how many the server grants, None if it refuses it."""

    def prefill_round(self) -> PrefillRound:
        """Form the next prefill batch and allocate its slots (``get_new_batch_prefill``)."""

    def prefilled(self) -> None:
        """The forward of the last prefill batch is over: whole prompts are stored and join the running batch."""

    def decode_round(self, token: int) -> DecodeRound:
        """Allocate a slot for `token` of each running request (``update_running_batch``)."""
