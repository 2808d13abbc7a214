"""The builtin engine with captured graphs: the steps of a scheduler that runs forwards through them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....models.config import Config
from ..base import Profile
from ..engine import GRAPH_CALLS, RunView, Span
from .engine import BuiltinEngine
from .engine_state import ENGINE
from .graph_buffers import GraphBuffers
from .pools import HybridPool, KvPool
from .runners import Breakable, Piecewise, Runner, Standard
from .speculative_runner import Speculative

__all__ = ["GraphEngine"]

_GRAPHS = replace(
    ENGINE,
    features=("graphs",),
    policies=("uncached", "side_channel", "memo", "per_forward"),
    events=ENGINE.events.union(GRAPH_CALLS),
)


class GraphEngine(BuiltinEngine):
    """The embedded implementation at all levels, and a `GraphTarget` if the config asks for graphs."""

    profiles: tuple[Profile, ...] = (*BuiltinEngine.profiles, _GRAPHS)

    _runners: dict[str, Runner]
    _speculative: Speculative
    _ran: KvPool
    _draft_locs: list[int]

    def build(self, config: Config) -> None:
        """See `EngineTarget.build`."""
        super().build(config)
        if "graphs" not in config.features:
            return
        kinds: dict[str, type[Runner]] = {"standard": Standard, "piecewise": Piecewise, "breakable": Breakable}
        buffers = GraphBuffers(config, self._pool.parts, self._device)
        self._runners = {name: kind(self._pool, buffers, self._device) for name, kind in kinds.items()}
        draft_pool = HybridPool(config, self._pool.policy)
        self._speculative = Speculative(self._pool, draft_pool, buffers, self._device)
        self._ran = self._pool

    def capture(self, runner: str, size: int) -> None:
        """See `GraphTarget.capture`."""
        if runner == "speculative":
            self._speculative.capture(size)
            self._ran = self._speculative.draft.pool
        else:
            self._runners[runner].capture(size)
            self._ran = self._pool

    def write(self, requests: list[Span], layer: int, tags: list[int]) -> None:
        """See `EngineTarget.write`."""
        super().write(requests, layer, tags)
        self._ran = self._pool

    def replay(self, runner: str, spans: list[Span], tags: list[list[int]]) -> None:
        """See `GraphTarget.replay`."""
        for request, _, _ in spans:
            self._wait(request)
        locs = [loc for request, start, stop in spans for loc in self._requests[request].locs(start, stop)]
        if runner == "speculative":
            self._speculative.run_verify(locs, tags)
        else:
            self._runners[runner].run(locs, tags)
        self._ran = self._pool

    def begin_draft(self, requests: list[int], count: int) -> list[int] | None:
        """See `GraphTarget.begin_draft`. The allocator is backed up, as EAGLE v1 does."""
        room = self._room(requests, count)
        self._saved = self._allocator.backup()
        locs = self._allocator.alloc_extend(*room)
        self._draft_locs = locs or []
        return locs

    def draft(self, tags: list[list[int]]) -> None:
        """See `GraphTarget.draft`."""
        self._speculative.run_draft(self._draft_locs, tags)
        self._ran = self._speculative.draft.pool

    def end_draft(self) -> None:
        """See `GraphTarget.end_draft`."""
        assert self._saved is not None
        self._allocator.restore(self._saved)

    def append(self, requests: list[int], tokens: Sequence[int]) -> list[int] | None:
        """See `GraphTarget.append`."""
        locs = self._allocator.alloc_extend(*self._room(requests, len(tokens)))
        if locs is None:
            return None
        for index, request in enumerate(requests):
            running = self._requests[request]
            running.tokens.extend(tokens)
            running.append(locs[index * len(tokens) : (index + 1) * len(tokens)])
        return locs

    def reject(self, request: int, count: int) -> None:
        """See `GraphTarget.reject`. Slots of a page that keeps a token stay the request's, for its next tokens."""
        running = self._requests[request]
        length = running.length
        running.length -= count
        del running.tokens[running.length :]
        whole = self._aligned(running.length + self._config.page_size - 1)
        if whole < length:
            self._allocator.free(running.locs(whole, length))

    def raw_run(self) -> RunView:
        """See `GraphTarget.raw_run`."""
        written = self._ran.written
        return RunView(tuple(tuple(written[layer].tolist()) for layer in range(len(self._config.layers))))

    # Inside

    def _room(self, requests: list[int], count: int) -> tuple[list[int], list[int], list[int]]:
        """Wait for what the requests read and make room for `count` more tokens of each; how `alloc_extend` is asked
        for them."""
        for request in requests:
            self._wait(request)
        batch = [self._requests[request] for request in requests]
        starts = [running.length for running in batch]
        stops = [start + count for start in starts]
        self._make_room(starts, stops)
        return starts, stops, self._last_locs(batch)
