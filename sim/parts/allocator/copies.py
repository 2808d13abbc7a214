"""Copies: KV that goes to the CPU and back (retraction and resumption), or from one token to another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Self

from ...core.event import Role, Roles
from .draws import Draws
from .event import OUTSIDE_GROUP, SPAN, AllocatorEvent, Rule, Step, clipped_span, span_words, tokens
from .ledger import Ledger

__all__ = ["CpuCopy", "LoadCpuCopy", "Move"]


@dataclass(frozen=True)
class CpuCopy(AllocatorEvent):
    """Copy a span's KV to the CPU under the name `copy` (``get_cpu_copy``): retraction."""

    kind = "cpu_copy"
    weight = 4
    keeps_free_lists = True
    rules = (OUTSIDE_GROUP, SPAN, Rule("a copy has a number", lambda le, e: e.copy >= 0))
    copy: int
    request: int
    start: int
    stop: int

    @classmethod
    def propose(cls, draws: Draws) -> Self | None:
        request = draws.live()
        if request is None:
            return None
        return cls(draws.choices.integer(0, 2), request, *draws.span(request))

    def enter(self, ledger: Ledger) -> None:
        ledger.copies[self.copy] = self.stop - self.start

    clip = clipped_span

    def perform(self, step: Step) -> None:
        step.target.cpu_copy(self.copy, step.world.locs(self.request, self.start, self.stop))

    def adopt(self, step: Step) -> None:
        step.world.cpu_copy(self.copy, step.world.locs(self.request, self.start, self.stop))

    def say(self, ledger: Ledger) -> str:
        return f"{span_words(self.request, self.start, self.stop)} to the CPU as copy {self.copy}"


@dataclass(frozen=True)
class LoadCpuCopy(AllocatorEvent):
    """Load a copy into the request's tokens from `start` on (``load_cpu_copy``): resumption."""

    kind = "load_cpu_copy"
    weight = 6
    follows = CpuCopy
    keeps_free_lists = True
    rules = (
        OUTSIDE_GROUP,
        Rule("the copy must exist", lambda le, e: e.copy in le.copies),
        Rule(
            "a copy is loaded into as many allocated tokens as it has",
            lambda le, e: e.start >= 0 and e.start + le.copies[e.copy] <= le.length(e.request),
        ),
    )
    copy: int
    request: int
    start: int

    @classmethod
    def propose(cls, draws: Draws) -> Self | None:
        ledger = draws.ledger
        if not ledger.copies:
            return None
        copy = draws.choices.pick(sorted(ledger.copies))
        room = [r for r in range(draws.habits.requests) if ledger.length(r) >= ledger.copies[copy]]
        if not room:
            return None
        request = draws.choices.pick(room)
        return cls(copy, request, draws.choices.pick((0, ledger.length(request) - ledger.copies[copy])))

    def clip(self, ledger: Ledger) -> LoadCpuCopy:
        room = ledger.length(self.request) - ledger.copies.get(self.copy, 0)
        return replace(self, start=max(0, min(self.start, room)))

    def _locs(self, step: Step) -> list[int]:
        count = len(step.world.copies[self.copy][1])
        return step.world.locs(self.request, self.start, self.start + count)

    def perform(self, step: Step) -> None:
        step.target.load_cpu_copy(self.copy, self._locs(step))
        step.touched = range(len(step.world.config.layers))

    def adopt(self, step: Step) -> None:
        step.world.load_cpu_copy(self.copy, self._locs(step))

    def say(self, ledger: Ledger) -> str:
        stop = self.start + ledger.copies[self.copy]
        return f"copy {self.copy} into {span_words(self.request, self.start, stop)}"


def _spans_mapped(ledger: Ledger, event: Move) -> bool:
    ends = (event.source + event.count, event.target + event.count)
    if event.count < 1 or min(event.source, event.target) < 0 or max(ends) > ledger.length(event.request):
        return False
    spans = ((event.source, ends[0]), (event.target, ends[1]))
    return all(all(ledger.mapped(event.request, start, stop)) for start, stop in spans)


_MOVED: Roles = MappingProxyType(
    {"request": Role.REQUEST, "source": Role.POSITION, "target": Role.POSITION, "count": Role.COUNT}
)


@dataclass(frozen=True)
class Move(AllocatorEvent):
    """Move the KV of `count` tokens from position `source` on to position `target` on (``move_kv_cache``)."""

    kind = "move"
    weight = 3
    keeps_free_lists = True
    rules = (
        OUTSIDE_GROUP,
        Rule("accepted tokens move between allocated tokens that have SWA slots", _spans_mapped),
        Rule("source and target do not overlap", lambda le, e: abs(e.source - e.target) >= e.count),
    )
    request: int
    source: int
    target: int
    count: int

    @classmethod
    def propose(cls, draws: Draws) -> Self | None:
        request = draws.live()
        if request is None or draws.ledger.length(request) < 2:
            return None
        length = draws.ledger.length(request)
        count = draws.choices.integer(1, length // 2)
        last = length - count
        return cls(request, draws.choices.integer(0, last), draws.choices.integer(0, last), count)

    def roles(self) -> Roles:
        return _MOVED

    def _locs(self, step: Step) -> tuple[list[int], list[int]]:
        """Locs of the target and of the source."""
        locs = step.world.locs
        return (
            locs(self.request, self.target, self.target + self.count),
            locs(self.request, self.source, self.source + self.count),
        )

    def perform(self, step: Step) -> None:
        step.target.move(*self._locs(step))
        step.touched = range(len(step.world.config.layers))

    def adopt(self, step: Step) -> None:
        step.world.move(*self._locs(step))

    def say(self, ledger: Ledger) -> str:
        source = tokens(self.source, self.source + self.count)
        return f"request {self.request}: KV of {source} to {tokens(self.target, self.target + self.count)}"
