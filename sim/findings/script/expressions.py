"""Expressions for locs: how a script names the slots of spans, by what its books hold."""

from __future__ import annotations

from collections.abc import Iterable

from ....models.config import SWA, Config
from ...parts.allocator import events as ev
from ...parts.allocator.ledger import Ledger

__all__ = ["Expressions", "Span"]

Span = tuple[int, int, int]
"""``(request, start, stop)``."""


class Expressions:
    """Expressions that hold before the event that is written next.

    Attributes:
        ledger: the scheduler's books.
        batch: the running forward's spans.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.ledger = Ledger(config)
        self.batch: tuple[ev.Span, ...] = ()

    def locs(self, spans: Iterable[Span], book: str = "full") -> str:
        """The locs of spans of requests, as an expression."""
        parts = [f"{book}[{request}][{start}:{stop}]" for request, start, stop in spans if stop > start]
        return " + ".join(parts) or "[]"

    def mapped(self, request: int, start: int, stop: int, wanted: bool = True) -> list[Span]:
        """The parts of a span whose tokens have (or lack) SWA slots."""
        size = self.config.page_size
        parts: list[Span] = []
        for page, swa in zip(
            self.ledger.page_range(start, stop), self.ledger.mapped(request, start, stop), strict=True
        ):
            low, high = max(start, page * size), min(stop, (page + 1) * size)
            if swa != wanted:
                continue
            if parts and parts[-1][2] == low:
                low = parts.pop()[1]
            parts.append((request, low, high))
        return parts

    def attended(self, layer: int) -> list[Span]:
        """What attention reads at a layer."""
        last: dict[int, int] = {}
        for request, _, stop in self.batch:
            last[request] = max(stop, last.get(request, 0))
        spans: list[Span] = []
        for request, stop in last.items():
            if self.config.layers[layer] == SWA:
                spans += self.mapped(request, max(0, stop - self.config.window), stop)
            else:
                spans.append((request, 0, stop))
        return spans

    def last_locs(self, requests: Iterable[int]) -> list[str]:
        """The last full loc of each request, -1 if it has none."""
        return [f"full[{request}][-1]" if self.ledger.length(request) else "-1" for request in requests]

    def swa_of(self, part: str, count: int, tail: int | None) -> str:
        """The SWA locs that new full locs must have got, as an expression."""
        if tail is None or tail == count:
            return f"[table()[loc] for loc in {part}]"
        head = f"[0] * {count - tail}"
        return f"{head} + [table()[loc] for loc in {part}[{count - tail}:]]" if tail else head

    def asked(self, event: ev.Translate) -> str:
        """The locs that an event translates, as an expression."""
        if event.source == "batch":
            return f"batch[{event.start}:{event.stop}]"
        locs = self.locs([(event.request, event.start, event.stop)])
        padding = event.padding(event.stop - event.start)
        return f"{locs} + {padding}" if padding else locs
