"""Allocation: what appends tokens to requests. Too few free slots: nothing happens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Self

from ...core.event import Event, Role, Roles, smaller
from .draws import Draws
from .event import APPENDABLE, OUTSIDE_GROUP, AllocatorEvent, Rule, Step, span_words
from .ledger import Ledger

__all__ = ["Alloc", "AllocDecode", "AllocExtend", "AllocExtendSwaTail"]

Items = Sequence[tuple[int, int]]
"""Requests and how many tokens each gets."""

_LACKING = "does not fit: nothing is allocated"


@dataclass(frozen=True)
class _Allocation(AllocatorEvent):
    """What all allocations have in common."""

    allocates = True

    @classmethod
    def fits_pages(cls, size: int) -> bool:
        return size > 1

    def swa_tail(self) -> int | None:
        """For how many of its last tokens it takes SWA slots; None for all."""
        return None

    def enter(self, ledger: Ledger) -> None:
        ledger.extend(self.appended(), self.swa_tail())

    def adopt(self, step: Step) -> None:
        if step.refused:
            step.world.saw("exhausted")
        else:
            step.world.extend(step.grants)

    def say(self, ledger: Ledger) -> str:
        return _grown(ledger, self.appended()) if self._fits(ledger) else self._misfit()

    def _fits(self, ledger: Ledger) -> bool:
        full, swa = ledger.needed(self.appended(), self.swa_tail())
        return full <= ledger.free_full and swa <= ledger.free_swa

    def _misfit(self) -> str:
        wanted = ", ".join(f"{count} for request {request}" for request, count in self.appended())
        return f"{wanted}: {_LACKING}"

    def _note(self, step: Step, locs: list[int] | None) -> None:
        """Note what the target answered."""
        world, items, tail = step.world, list(self.appended()), self.swa_tail()
        full = sum(world.new_pages(request, count) for request, count in items)
        swa = full if tail is None else world.config.pages(tail)
        step.room = full <= len(world.full.free) and swa <= len(world.swa.free)
        step.refused = locs is None
        step.mapping = step.target.raw_mapping()
        if locs is None:
            return
        wanted = sum(count for _, count in items)
        if len(locs) != wanted:
            step.miscount = f"{wanted} tokens were asked for, {len(locs)} locs came back"
            return
        step.grants = world.grants(items, locs, step.mapping, tail)

    def _lengths(self, step: Step) -> tuple[list[int], list[int], list[int]]:
        """Of each request: its length before, its length after, its last loc."""
        world, items = step.world, self.appended()
        prefix = [len(world.locs(request)) for request, _ in items]
        seq = [length + count for length, (_, count) in zip(prefix, items, strict=True)]
        return prefix, seq, [world.last_loc(request) for request, _ in items]


def _grown(ledger: Ledger, items: Items) -> str:
    lengths = ((request, ledger.length(request), count) for request, count in items)
    return "; ".join(span_words(request, length, length + count) for request, length, count in lengths)


def _paged(call: str) -> Rule:
    return Rule(
        f"{call} is the paged allocator's: page size above 1", lambda ledger, event: ledger.config.page_size > 1
    )


@dataclass(frozen=True)
class Alloc(_Allocation):
    """Page size 1: append `count` tokens to a request (``alloc``). Too few free slots: nothing happens."""

    kind = "alloc"
    weight = 10
    always = True
    rules = (
        OUTSIDE_GROUP,
        Rule("alloc hands out single slots: page size 1 only", lambda le, e: le.config.page_size == 1),
        Rule("an allocation is of at least one token", lambda le, e: e.count > 0),
    )
    request: int
    count: int

    @classmethod
    def fits_pages(cls, size: int) -> bool:
        return size == 1

    @classmethod
    def propose(cls, draws: Draws) -> Self:
        return cls(draws.request(), draws.count())

    def perform(self, step: Step) -> None:
        self._note(step, step.target.alloc(self.count))

    def appended(self) -> tuple[tuple[int, int], ...]:
        return ((self.request, self.count),)

    def longer(self, request: int, count: int) -> Event:
        return replace(self, count=self.count + count)

    def without(self, request: int, count: int) -> tuple[Event | None, int]:
        return _shorter(self, request, count)


def _shorter(event: Alloc | AllocExtendSwaTail, request: int, count: int) -> tuple[Event | None, int]:
    taken = min(event.count, count) if request == event.request else 0
    return (replace(event, count=event.count - taken) if taken < event.count else None), taken


@dataclass(frozen=True)
class AllocExtend(_Allocation):
    """Append tokens to several requests in one call; `items` are ``(request, count)`` pairs (``alloc_extend``)."""

    kind = "alloc_extend"
    weight = 10
    always = True
    rules = (
        OUTSIDE_GROUP,
        _paged("alloc_extend"),
        Rule("each request gets at least one token", lambda le, e: bool(e.items) and all(n > 0 for _, n in e.items)),
        Rule("a request is in a batch once", lambda le, e: len(dict(e.items)) == len(e.items)),
        Rule(APPENDABLE, lambda le, e: all(le.appendable(request) for request, _ in e.items)),
    )
    items: tuple[tuple[int, int], ...]

    @classmethod
    def propose(cls, draws: Draws) -> Self:
        requests = draws.several(range(draws.habits.requests))
        return cls(tuple((request, draws.count()) for request in requests))

    def perform(self, step: Step) -> None:
        self._note(step, step.target.alloc_extend(*self._lengths(step)))

    def roles(self) -> Roles:
        return _ITEMS

    def appended(self) -> tuple[tuple[int, int], ...]:
        return self.items

    def longer(self, request: int, count: int) -> Event:
        return replace(self, items=tuple((r, size + count if r == request else size) for r, size in self.items))

    def without(self, request: int, count: int) -> tuple[Event | None, int]:
        taken = min(count, dict(self.items).get(request, 0))
        items = ((r, size - taken if r == request else size) for r, size in self.items)
        kept = tuple(item for item in items if item[1])
        return (replace(self, items=kept) if kept else None), taken


_ITEMS: Roles = MappingProxyType({"items": (Role.REQUEST, Role.COUNT)})


@dataclass(frozen=True)
class AllocDecode(_Allocation):
    """Append one token to each request (``alloc_decode``)."""

    kind = "alloc_decode"
    weight = 6
    rules = (
        OUTSIDE_GROUP,
        _paged("alloc_decode"),
        Rule("a request is in a batch once", lambda le, e: 0 < len(e.requests) == len(set(e.requests))),
        Rule("only a request with a prefix decodes", lambda le, e: all(le.length(r) > 0 for r in e.requests)),
        Rule(APPENDABLE, lambda le, e: all(le.appendable(request) for request in e.requests)),
        Rule(
            "the scheduler evicts or retracts until a decode step fits, then allocates",
            lambda le, e: e._fits(le),
        ),
    )
    requests: tuple[int, ...]

    @classmethod
    def propose(cls, draws: Draws) -> Self | None:
        ledger = draws.ledger
        ready = [r for r in range(draws.habits.requests) if ledger.length(r) and ledger.appendable(r)]
        return cls(draws.several(ready)) if ready else None

    def perform(self, step: Step) -> None:
        _, seq, last = self._lengths(step)
        self._note(step, step.target.alloc_decode(seq, last))

    def appended(self) -> tuple[tuple[int, int], ...]:
        return tuple((request, 1) for request in self.requests)


@dataclass(frozen=True)
class AllocExtendSwaTail(_Allocation):
    """Append `count` tokens, with SWA slots for the last `tail` only (``alloc_extend_swa_tail``)."""

    kind = "alloc_extend_swa_tail"
    weight = 9
    rules = (
        OUTSIDE_GROUP,
        _paged("the tail allocation"),
        Rule("the tail is a part of the extension", lambda le, e: 0 <= e.tail <= e.count and e.count > 0),
        Rule(
            "the decode queue aligns the prefix and the start of the tail to pages",
            lambda le, e: (
                le.length(e.request) % le.config.page_size == 0 and (e.count - e.tail) % le.config.page_size == 0
            ),
        ),
    )
    request: int
    count: int
    tail: int

    @classmethod
    def propose(cls, draws: Draws) -> Self:
        count = draws.count()
        if draws.choices.chance(50):
            count += draws.size
        head = draws.choices.integer(0, count // draws.size) * draws.size
        return cls(draws.request(), count, count - head)

    def swa_tail(self) -> int:
        return self.tail

    def clip(self, ledger: Ledger) -> AllocExtendSwaTail:
        size = ledger.config.page_size
        return replace(self, tail=max(0, self.count - (self.count - self.tail) // size * size))

    def perform(self, step: Step) -> None:
        (prefix,), (seq,), (last,) = self._lengths(step)
        self._note(step, step.target.alloc_extend_swa_tail(prefix, seq, last, self.tail))

    def adopt(self, step: Step) -> None:
        super().adopt(step)
        if not step.refused and self.tail < self.count:
            step.world.saw("tail_allocated")

    def say(self, ledger: Ledger) -> str:
        if not self._fits(ledger):
            return self._misfit()
        with_swa = f"the last {self.tail} only" if self.tail else "none of them"
        return f"{_grown(ledger, self.appended())}, SWA slots for {with_swa}"

    def simpler(self) -> Iterator[Event]:
        for value in smaller(self.count, 1):
            yield replace(self, count=value, tail=min(self.tail, value))
        yield from self.fewer(tail=0)

    def appended(self) -> tuple[tuple[int, int], ...]:
        return ((self.request, self.count),)

    def longer(self, request: int, count: int) -> Event:
        return replace(self, count=self.count + count, tail=self.tail + count)

    def without(self, request: int, count: int) -> tuple[Event | None, int]:
        return _shorter(self, request, count)
