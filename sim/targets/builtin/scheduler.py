"""The builtin target with a scheduler: it admits what fits now, in chunks, and retracts what does not fit any more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ....models.config import Config
from ..scheduler import MAX_REQUESTS, SCHEDULER_CALLS, DecodeRound, Grant, PrefillRound
from .engine import BuiltinEngine
from .engine_state import ENGINE
from .requests import Request

__all__ = ["SCHEDULER", "SchedulerEngine"]

SCHEDULER = replace(
    ENGINE,
    features=("scheduler",),
    events=frozenset(SCHEDULER_CALLS),
    unreachable={"outgrown": "the last request of a batch is retracted like any other"},
)


@dataclass
class _Queues:
    """Where requests stand.

    Attributes:
        waiting: the prompt of each request that waits, in order.
        chunked: the request whose prompt is computed in part.
        fresh: whether its last chunk is not stored yet.
        batch: the requests of the prefill batch.
        running: the requests that decode, in the order in which they joined.
    """

    waiting: dict[int, list[int]] = field(default_factory=dict)
    chunked: int | None = None
    fresh: bool = False
    batch: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)


class SchedulerEngine(BuiltinEngine):
    """`BuiltinEngine`, and a `SchedulerTarget` if the config says so. See there for what the methods mean.

    A request that is admitted keeps no more SWA slots than those of its window, in whole pages. So as soon as nothing
    else runs there is room for its next page, as `submit` makes sure.
    """

    profiles = (*BuiltinEngine.profiles, SCHEDULER)

    _queues: _Queues

    def build(self, config: Config) -> None:
        """See `Target.build`."""
        super().build(config)
        if config.level == ENGINE.level:
            self._queues = _Queues()

    def aborts_chunked(self) -> bool:
        """See `SchedulerTarget.aborts_chunked`."""
        return True

    def submit(self, request: int, tokens: list[int], most: int) -> int | None:
        """See `SchedulerTarget.submit`. Without chunks the SWA pool must hold a whole prompt, and what was decoded of
        it if it is retracted; with them, a window and the next page, wherever in a page the window begins."""
        config = self._config
        room = config.full_pages if config.chunk else min(config.full_pages, config.swa_pages)
        window = config.pages(max(config.window, config.page_size)) + 2
        most = min(most, room * config.page_size - len(tokens))
        if most < 1 or (config.chunk and window > config.swa_pages):
            return None
        self._queues.waiting[request] = list(tokens)
        return most

    def prefill_round(self) -> PrefillRound:
        """See `SchedulerTarget.prefill_round`. Who came first is served first; who does not fit keeps all others
        waiting."""
        self._begin()
        queues, config = self._queues, self._config
        chunk = config.chunk or config.full_size * MAX_REQUESTS
        inputs = max(config.max_prefill, 1)
        grants: list[Grant] = []
        for number in self._in_order():
            grant = self._grant(number, chunk) if chunk > 0 and (inputs > 0 or not grants) else None
            if grant is None:
                break
            grants.append(grant)
            chunk, inputs = chunk - grant.count, inputs - grant.count
            queues.batch.append(number)
            if queues.chunked is not None:
                break
        return PrefillRound(tuple(grants))

    def prefilled(self) -> None:
        """See `SchedulerTarget.prefilled`."""
        queues = self._queues
        for number in queues.batch:
            if number != queues.chunked:
                self.checkpoint(number)
                queues.running.append(number)
        queues.batch.clear()

    def decode_round(self, token: int) -> DecodeRound:
        """See `SchedulerTarget.decode_round`. Who joined last is retracted first, and waits behind the others."""
        self._begin()
        queues = self._queues
        for number in queues.running:
            self.evict_window(number)
        retracted = []
        while queues.running and self._next_pages() > self._spare_pages():
            number = queues.running.pop()
            queues.waiting[number] = self._requests[number].tokens
            self._release(number)
            retracted.append(number)
        if queues.running:
            self.decode(queues.running, [token] * len(queues.running))
        return DecodeRound(tuple(queues.running), tuple(retracted))

    def checkpoint(self, request: int) -> None:
        """See `EngineTarget.checkpoint`. A scheduler without a prefix cache stores nothing."""
        if self._schedules and not self._config.prefix_cache:
            return
        super().checkpoint(request)
        if self._schedules:
            self._keep_window(self._requests[request])

    def finish(self, request: int) -> None:
        """See `EngineTarget.finish`."""
        if self._schedules:
            self._queues.running.remove(request)
        super().finish(request)

    def abort(self, request: int) -> None:
        """See `EngineTarget.abort`. A request that waits holds nothing."""
        if self._queues.waiting.pop(request, None) is None:
            self._queues.chunked = None
            super().abort(request)

    # Inside

    @property
    def _schedules(self) -> bool:
        return "scheduler" in self._config.features

    def _begin(self) -> None:
        """The last chunk is stored, and what left its window is given up."""
        queues = self._queues
        if queues.chunked is not None and queues.fresh:
            self.checkpoint(queues.chunked)
            self.evict_window(queues.chunked)
        queues.fresh = False

    def _in_order(self) -> Iterator[int]:
        """Whose turn it is: first the request between two chunks."""
        queues = self._queues
        return iter([*([] if queues.chunked is None else [queues.chunked]), *queues.waiting])

    def _grant(self, number: int, chunk: int) -> Grant | None:
        """Slots for the next `chunk` tokens of a prompt, or as many as there is room for; None if there is none."""
        queues = self._queues
        waits = number != queues.chunked
        loaded = self._enter(number) if waits else 0
        running = self._requests[number]
        start, prompt = running.length, len(running.tokens)
        count = self._fitting(start, prompt, chunk)
        if not count or self.prefill(number, count) is None:
            if waits:
                self._release(number)
            return None
        queues.waiting.pop(number, None)
        partial = start + count < prompt
        queues.chunked = number if partial else None
        queues.fresh = partial
        return Grant(number, start, loaded, count)

    def _enter(self, number: int) -> int:
        """Match and lock the prompt of a request that waits; how many of its tokens are loaded back."""
        admission = self.admit(number, self._queues.waiting[number])
        assert admission is not None
        self._keep_window(self._requests[number])
        return admission.loaded

    def _fitting(self, start: int, prompt: int, chunk: int) -> int:
        """How many tokens from `start` on are computed now: up to the end of a page, unless it is the prompt's end."""
        stop = min(prompt, start + chunk)
        pages = self._config.pages
        if pages(stop) - pages(start) > self._spare_pages():
            stop = min(stop, start + self._spare_pages() * self._config.page_size if self._config.chunk else start)
        return (stop if stop == prompt else self._aligned(stop)) - start

    def _spare_pages(self) -> int:
        """Pages that are free in both pools, or that the tree can give up."""
        size = self._config.page_size
        full, swa = self._allocator.full.available_pages(), self._allocator.swa.available_pages()
        for node in self._tree.nodes():
            full += len(node.tokens) // size if node.full is not None and not node.full_locks else 0
            swa += len(node.tokens) // size if node.swa is not None and not node.swa_locks else 0
        return min(full, swa)

    def _next_pages(self) -> int:
        """Pages that one more token of each running request takes."""
        lengths = [self._requests[number].length for number in self._queues.running]
        return sum(self._config.pages(length + 1) - self._config.pages(length) for length in lengths)

    def _keep_window(self, running: Request) -> None:
        """Lock no SWA slots in front of the window. A node that reaches into it is split where it begins."""
        start = self._aligned(max(0, running.length + 1 - self._config.window))
        for node in running.lock.node.path():
            if node.start < start < node.end:
                self._tree.split(node, start - node.start)
                break
        self._tree.release_window(running.lock, start)
