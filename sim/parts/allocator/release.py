"""Release: what gives slots up, and the free groups in which that waits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from .draws import Draws
from .event import FROZEN, OUTSIDE_DRAFT, SPAN, AllocatorEvent, Rule, Step, all_mapped, clipped_span, span_words
from .ledger import Ledger

__all__ = ["Free", "FreeGroupBegin", "FreeGroupEnd", "FreeSwa"]


@dataclass(frozen=True)
class Free(AllocatorEvent):
    """Free the request's tokens from `start` (a page boundary) to its end, in both pools (``free``)."""

    kind = "free"
    weight = 7
    rules = (
        OUTSIDE_DRAFT,
        Rule(
            "no live loc is freed twice: the request must have tokens there",
            lambda le, e: 0 <= e.start < le.length(e.request),
        ),
        Rule(
            "a page has one owner, so a free starts on a page boundary",
            lambda le, e: e.start % le.config.page_size == 0,
        ),
        FROZEN,
    )
    request: int
    start: int

    @classmethod
    def propose(cls, draws: Draws) -> Self | None:
        request = draws.live()
        if request is None:
            return None
        pages = draws.ledger.config.pages(draws.ledger.length(request))
        start = draws.choices.integer(0, pages - 1) * draws.size if draws.choices.chance(40) else 0
        return cls(request, start)

    def enter(self, ledger: Ledger) -> None:
        state = ledger.requests[self.request]
        if ledger.forward is not None and ledger.forward.touches(self.request, self.start, state.length):
            ledger.forward.broken = True
        first = self.start // ledger.config.page_size
        ledger.give_back(len(state.swa) - first, sum(state.swa[first:]))
        del state.swa[first:]
        state.length = self.start

    def clip(self, ledger: Ledger) -> Free:
        size = ledger.config.page_size
        last_page = max(0, ledger.length(self.request) - 1) // size * size
        return replace(self, start=min(self.start // size * size, last_page))

    def perform(self, step: Step) -> None:
        locs = step.world.locs(self.request, self.start)
        table = step.world.mapping.table
        step.target.free([loc for loc in locs if table[loc]], [loc for loc in locs if not table[loc]])

    def adopt(self, step: Step) -> None:
        step.world.free(self.request, self.start)

    def say(self, ledger: Ledger) -> str:
        return f"{span_words(self.request, self.start, ledger.length(self.request))}, both pools"


@dataclass(frozen=True)
class FreeSwa(AllocatorEvent):
    """Free the SWA slots of a span and keep its full slots: window eviction (``free_swa``)."""

    kind = "free_swa"
    weight = 6
    remaps = True
    rules = (
        OUTSIDE_DRAFT,
        SPAN,
        Rule("the evicted length only grows: no page is evicted twice", all_mapped),
        FROZEN,
    )
    request: int
    start: int
    stop: int

    @classmethod
    def propose(cls, draws: Draws) -> Self | None:
        request = draws.subject()
        if request is None:
            return None
        length = draws.ledger.length(request)
        if draws.size > 1 and draws.choices.chance(draws.habits.partial):
            start = draws.choices.integer(0, length - 1)
            return cls(request, start, draws.choices.integer(start + 1, length))
        span = draws.pages(request, True)
        return cls(request, *span) if span is not None else None

    def enter(self, ledger: Ledger) -> None:
        state = ledger.requests[self.request]
        pages = ledger.page_range(self.start, self.stop)
        ledger.give_back(0, sum(state.swa[page] for page in pages))
        for page in pages:
            state.swa[page] = False

    clip = clipped_span

    def perform(self, step: Step) -> None:
        step.target.free_swa(step.world.locs(self.request, self.start, self.stop))

    def adopt(self, step: Step) -> None:
        step.world.free_swa(self.request, self.start, self.stop)

    def say(self, ledger: Ledger) -> str:
        return f"{span_words(self.request, self.start, self.stop)}: SWA slots freed (window eviction)"


@dataclass(frozen=True)
class FreeGroupBegin(AllocatorEvent):
    """Open a free group: slots freed inside it become available at its end (``free_group_begin``)."""

    kind = "free_group_begin"
    weight = 2
    rules = (
        OUTSIDE_DRAFT,
        Rule("free groups do not nest (asserted by SGLang since PR 36739)", lambda le, e: not le.group_open),
    )

    def enter(self, ledger: Ledger) -> None:
        ledger.group_open = True

    def perform(self, step: Step) -> None:
        step.target.free_group_begin()

    def adopt(self, step: Step) -> None:
        step.world.begin_group()

    def say(self, ledger: Ledger) -> str:
        return "later frees wait for the end of the group"


@dataclass(frozen=True)
class FreeGroupEnd(AllocatorEvent):
    """Close the free group; without an open one, nothing happens (``free_group_end``)."""

    kind = "free_group_end"
    weight = 3
    follows = FreeGroupBegin
    rules = (OUTSIDE_DRAFT,)

    @classmethod
    def propose(cls, draws: Draws) -> Self | None:
        return cls() if draws.ledger.group_open or draws.habits.idle_ends else None

    def enter(self, ledger: Ledger) -> None:
        ledger.end_group()

    def perform(self, step: Step) -> None:
        if not step.world.group_open:
            step.world.saw("idle_group_end")
        step.target.free_group_end()

    def adopt(self, step: Step) -> None:
        step.world.end_group()

    def say(self, ledger: Ledger) -> str:
        return "waiting frees take effect" if ledger.group_open else "no group is open"
