"""What a scheduler knows without looking at slots: lengths, pages left, what is open.

Contracts are judged on it, so a tape can be generated, repaired and checked without any target.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ....models.config import Config
from ...core.event import Span

__all__ = ["Ledger", "OpenForward", "RequestState"]


@dataclass
class RequestState:
    """A request: its tokens, and for each of its pages whether it has SWA slots."""

    length: int = 0
    swa: list[bool] = field(default_factory=list)


@dataclass
class OpenForward:
    """The running forward.

    Attributes:
        spans: the batch.
        frozen: the batch's translation was made once, at the start; its mapping must not change.
        next_layer: the layer written next.
        broken: a request of the batch lost tokens since; nothing can be written or read any more.
    """

    spans: tuple[Span, ...]
    frozen: bool
    next_layer: int = 0
    broken: bool = False

    @property
    def tokens(self) -> int:
        """Tokens in the batch."""
        return sum(stop - start for _, start, stop in self.spans)

    def touches(self, request: int, start: int, stop: int) -> bool:
        """Whether the batch holds a token of this span."""
        return any(r == request and start < end and begin < stop for r, begin, end in self.spans)


class Ledger:
    """The scheduler's books after each event.

    Attributes:
        free_full: full pages available.
        free_swa: SWA pages available.
        copies: copy -> tokens in it.
    """

    def __init__(self, config: Config, per_forward: bool = False) -> None:
        self.config = config
        self.per_forward = per_forward
        self.requests: dict[int, RequestState] = {}
        self.free_full = config.full_pages
        self.free_swa = config.swa_pages
        self.pending_full = 0
        self.pending_swa = 0
        self.group_open = False
        self.forward: OpenForward | None = None
        self.copies: dict[int, int] = {}
        self.saved: tuple[dict[int, RequestState], int, int] | None = None

    # Looking

    def length(self, request: int) -> int:
        """Tokens of a request; 0 for one never seen."""
        state = self.requests.get(request)
        return state.length if state else 0

    def new_pages(self, request: int, count: int) -> int:
        """Pages that appending `count` tokens takes."""
        length = self.length(request)
        return self.config.pages(length + count) - self.config.pages(length)

    def needed(self, items: Iterable[tuple[int, int]], tail: int | None = None) -> tuple[int, int]:
        """Full and SWA pages that appending to requests takes; see `extend`."""
        full = sum(self.new_pages(request, count) for request, count in items)
        return full, full if tail is None else self.config.pages(tail)

    def page_range(self, start: int, stop: int) -> range:
        """Page numbers, within a request, that a span touches."""
        return range(start // self.config.page_size, self.config.pages(stop))

    def mapped(self, request: int, start: int, stop: int) -> list[bool]:
        """For each page a span touches, whether it has SWA slots."""
        state = self.requests[request]
        return [state.swa[page] for page in self.page_range(start, stop)]

    def appendable(self, request: int) -> bool:
        """Whether the next token has an SWA neighbour: a partly filled last page must still be mapped."""
        state = self.requests.get(request)
        return state is None or state.length % self.config.page_size == 0 or state.swa[-1]

    # Entering

    def apply(self, event: Any) -> None:
        """Enter a legal event, an `AllocatorEvent`."""
        event.enter(self)

    def extend(self, items: Iterable[tuple[int, int]], tail: int | None = None) -> None:
        """Requests get more tokens, with SWA slots for the last `tail` only; nothing happens if they do not fit."""
        items = list(items)
        full, swa = self.needed(items, tail)
        if full > self.free_full or swa > self.free_swa:
            return
        self.free_full -= full
        self.free_swa -= swa
        for request, count in items:
            state = self.requests.setdefault(request, RequestState())
            fresh = self.new_pages(request, count)
            with_swa = fresh if tail is None else swa
            state.swa += [False] * (fresh - with_swa) + [True] * with_swa
            state.length += count

    def give_back(self, full: int, swa: int) -> None:
        """Pages are free, or will be at the end of the open group."""
        if self.group_open:
            self.pending_full += full
            self.pending_swa += swa
        else:
            self.free_full += full
            self.free_swa += swa

    def end_group(self) -> None:
        """What waits in the group is free."""
        self.group_open = False
        self.free_full += self.pending_full
        self.free_swa += self.pending_swa
        self.pending_full = self.pending_swa = 0

    def backup(self) -> None:
        """Requests and free pages are saved."""
        self.saved = (copy.deepcopy(self.requests), self.free_full, self.free_swa)

    def restore(self) -> None:
        """Requests and free pages are what was saved."""
        assert self.saved is not None
        self.requests, self.free_full, self.free_swa = self.saved
        self.saved = None

    def clear(self) -> None:
        """Every request is gone."""
        self.requests = {}
        self.free_full, self.free_swa = self.config.full_pages, self.config.swa_pages
        self.pending_full = self.pending_swa = 0
        self.group_open = False
        if self.forward is not None:
            self.forward.broken = True
