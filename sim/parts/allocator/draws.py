"""What random events are made of: counts, requests, spans and pages that suit what a scheduler knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...core.choices import Choices
from .ledger import Ledger

__all__ = ["Draws", "Habits"]


@dataclass(frozen=True)
class Habits:
    """How one tape behaves.

    Attributes:
        length: events at most.
        events: events in the swarm, in the order of the alphabet; then those of a file.
        weights: weight of each.
        requests: number of requests in play.
        unit: token count that most allocations and spans have.
        storages: where batches' locs may live.
        partial: percentage of window evictions that name a part of a page.
        idle_ends: free groups are also ended when none is open.
        precomputed: percentage of forwards that come with a translation made up front.
    """

    length: int
    events: tuple[Any, ...]
    weights: tuple[int, ...]
    requests: int
    unit: int
    storages: tuple[str, ...]
    partial: int
    idle_ends: bool
    precomputed: int


class Draws:
    """Draws from a tape's habits and the ledger as it is."""

    def __init__(self, choices: Choices, ledger: Ledger, habits: Habits) -> None:
        self.choices = choices
        self.ledger = ledger
        self.habits = habits
        self.size = ledger.config.page_size

    def count(self) -> int:
        if self.choices.chance(70):
            return self.habits.unit
        if self.choices.chance(30):
            return max(1, self.ledger.free_full * self.size)
        return self.choices.integer(1, max(2, 2 * self.size + 1))

    def request(self) -> int:
        return self.choices.integer(0, self.habits.requests - 1)

    def live(self) -> int | None:
        """A request with tokens."""
        requests = [r for r in range(self.habits.requests) if self.ledger.length(r)]
        return self.choices.pick(requests) if requests else None

    def subject(self) -> int | None:
        """A request whose mapping may change: one of the running batch rather than any."""
        forward = self.ledger.forward
        if forward is not None and not forward.frozen and self.choices.chance(60):
            request = self.choices.pick(forward.spans)[0]
            return request if self.ledger.length(request) else None
        return self.live()

    def several(self, requests: Sequence[int]) -> tuple[int, ...]:
        """One to six of these requests, in any order; few more often than many."""
        rest = list(requests)
        chosen = []
        for _ in range(min(len(rest), self.choices.pick((1, 1, 2, 3, 6)))):
            chosen.append(rest.pop(self.choices.integer(0, len(rest) - 1)))
        return tuple(chosen)

    def span(self, request: int) -> tuple[int, int]:
        """A span of a live request: its last tokens, all of it, or any part."""
        length = self.ledger.length(request)
        shape = self.choices.integer(0, 3)
        if shape == 0:
            return max(0, length - self.habits.unit), length
        if shape == 1:
            return 0, length
        start = self.choices.integer(0, length - 1)
        if shape == 2:
            return start, min(length, start + self.habits.unit)
        return start, self.choices.integer(start + 1, length)

    def pages(self, request: int, mapped: bool) -> tuple[int, int] | None:
        """Whole, full pages in a row that all have (or all lack) SWA slots, as a span of tokens."""
        state = self.ledger.requests[request]
        whole = state.length // self.size
        firsts = [page for page in range(whole) if state.swa[page] == mapped]
        if not firsts:
            return None
        first = self.choices.pick(firsts)
        last = first + 1
        while last < whole and state.swa[last] == mapped and self.choices.chance(60):
            last += 1
        return first * self.size, last * self.size
