"""What a scheduler knows without looking at slots: lengths, pages left, what is open.

Contracts are judged on it, so a tape can be generated, repaired and checked without any target.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ....models.config import Config
from ..declared import Declared, Repack
from ..hooks import meaning
from . import events as ev

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

    spans: tuple[ev.Span, ...]
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

    # Events

    def apply(self, event: ev.Event) -> None:
        """Enter a legal event."""
        if isinstance(event, Declared):
            for part in meaning(event, self):
                self.apply(part)
        else:
            _APPLY[type(event)](self, event)

    def _extend(self, items: Iterable[tuple[int, int]], tail: int | None = None) -> None:
        items = list(items)
        full = sum(self.new_pages(request, count) for request, count in items)
        swa = full if tail is None else self.config.pages(tail)
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

    def _free(self, event: ev.Free) -> None:
        state = self.requests[event.request]
        if self.forward is not None and self.forward.touches(event.request, event.start, state.length):
            self.forward.broken = True
        first = event.start // self.config.page_size
        self._give_back(len(state.swa) - first, sum(state.swa[first:]))
        del state.swa[first:]
        state.length = event.start

    def _free_swa(self, event: ev.FreeSwa) -> None:
        state = self.requests[event.request]
        pages = self.page_range(event.start, event.stop)
        self._give_back(0, sum(state.swa[page] for page in pages))
        for page in pages:
            state.swa[page] = False

    def _give_back(self, full: int, swa: int) -> None:
        if self.group_open:
            self.pending_full += full
            self.pending_swa += swa
        else:
            self.free_full += full
            self.free_swa += swa

    def _set_mapping(self, event: ev.SetMapping) -> None:
        state = self.requests[event.request]
        for page in self.page_range(event.start, event.stop):
            state.swa[page] = True
            self.free_swa -= 1

    def _end_group(self) -> None:
        self.group_open = False
        self.free_full += self.pending_full
        self.free_swa += self.pending_swa
        self.pending_full = self.pending_swa = 0

    def _backup(self) -> None:
        self.saved = (copy.deepcopy(self.requests), self.free_full, self.free_swa)

    def _restore(self) -> None:
        assert self.saved is not None
        self.requests, self.free_full, self.free_swa = self.saved
        self.saved = None

    def _clear(self) -> None:
        self.requests = {}
        self.free_full, self.free_swa = self.config.full_pages, self.config.swa_pages
        self.pending_full = self.pending_swa = 0
        self.group_open = False
        if self.forward is not None:
            self.forward.broken = True

    def _begin_forward(self, event: ev.BeginForward) -> None:
        self.forward = OpenForward(event.spans, self.per_forward or event.precomputed)

    def _write(self) -> None:
        assert self.forward is not None
        self.forward.next_layer += 1

    def _begin_group(self) -> None:
        self.group_open = True

    def _end_forward(self) -> None:
        self.forward = None

    def _cpu_copy(self, event: ev.CpuCopy) -> None:
        self.copies[event.copy] = event.stop - event.start


def _nothing(ledger: Ledger, event: ev.Event) -> None:
    """An event after which the books are the same."""


_APPLY: dict[type[ev.Event], Callable[..., None]] = {
    ev.Alloc: lambda ledger, event: ledger._extend([(event.request, event.count)]),
    ev.AllocExtend: lambda ledger, event: ledger._extend(event.items),
    ev.AllocDecode: lambda ledger, event: ledger._extend((request, 1) for request in event.requests),
    ev.AllocExtendSwaTail: lambda ledger, event: ledger._extend([(event.request, event.count)], event.tail),
    ev.Free: Ledger._free,
    ev.FreeSwa: Ledger._free_swa,
    ev.FreeGroupBegin: lambda ledger, event: ledger._begin_group(),
    ev.FreeGroupEnd: lambda ledger, event: ledger._end_group(),
    ev.SetMapping: Ledger._set_mapping,
    ev.RegisterMapping: _nothing,
    ev.Backup: lambda ledger, event: ledger._backup(),
    ev.Restore: lambda ledger, event: ledger._restore(),
    ev.Clear: lambda ledger, event: ledger._clear(),
    ev.BeginForward: Ledger._begin_forward,
    ev.WriteKv: lambda ledger, event: ledger._write(),
    ev.ReadKv: _nothing,
    ev.Translate: _nothing,
    ev.EndForward: lambda ledger, event: ledger._end_forward(),
    ev.CpuCopy: Ledger._cpu_copy,
    ev.LoadCpuCopy: _nothing,
    ev.Move: _nothing,
    Repack: _nothing,
}
