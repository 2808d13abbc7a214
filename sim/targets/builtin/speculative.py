"""The builtin target with speculative decode: slots for a draft, its verification, and what is accepted of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from ....models.config import Config
from ..base import Profile, Rows
from ..engine import Admission, NodeView, RequestView
from ..speculative import SPEC_CALLS, Branches, SpecRules
from ..tags import decode, encode
from .bigrams import bigrams, first, second
from .engine import BuiltinEngine
from .engine_state import ENGINE
from .pools import HybridPool
from .requests import Request
from .spec_layout import Layout
from .swa import AllocatorState

__all__ = ["SPEC", "Progress", "SpecEngine"]

SPEC = Profile(
    level="engine",
    features=("spec",),
    pool=ENGINE.pool,
    policies=ENGINE.policies,
    page_sizes=(1, 4, 64),
    more_pages=ENGINE.more_pages,
    dtypes=ENGINE.dtypes,
    events=ENGINE.events.union(SPEC_CALLS) - {"decode"},
    host=True,
    small_host=True,
    spec_versions=("v1", "v2"),
)


@dataclass
class Progress:
    """How far a request is.

    Attributes:
        committed: tokens with KV that the scheduler knows of.
        computed: tokens with KV.
        uncommitted: how many each verification accepted that is not committed, the oldest first.
    """

    committed: int
    computed: int
    uncommitted: list[int] = field(default_factory=list)


class SpecEngine(BuiltinEngine):
    """`BuiltinEngine`, and a `SpeculativeTarget` if the config says so. See there for what the methods mean.

    The draft's pool shares mapping and policy with the target's; its rows are not copied to the host. Outside of a
    step a request's `length` is what is allocated.
    """

    profiles: tuple[Profile, ...] = (*BuiltinEngine.profiles, SPEC)

    _layout: Layout
    _draft_pool: HybridPool
    _progress: dict[int, Progress]
    _before_draft: AllocatorState

    def build(self, config: Config) -> None:
        """See `EngineTarget.build`."""
        super().build(config)
        if "spec" not in config.features:
            return
        self._layout = Layout(config)
        self._draft_pool = HybridPool(config, self._pool.policy)
        self._draft_pool.register_mapping(self._pool.full_to_swa_index_mapping)
        self._progress = {}

    def spec_rules(self) -> SpecRules:
        """See `SpeculativeTarget.spec_rules`."""
        return SpecRules()

    def admit(self, request: int, tokens: list[int]) -> Admission | None:
        """See `EngineTarget.admit`."""
        admission = super().admit(request, tokens)
        if admission is not None and self._speculates:
            self._progress[request] = Progress(admission.cached, admission.cached)
        return admission

    def prefill(self, request: int, count: int) -> list[int] | None:
        """See `EngineTarget.prefill`."""
        locs = super().prefill(request, count)
        if locs is not None and self._speculates:
            progress = self._progress[request]
            progress.committed = progress.computed = self._requests[request].length
        return locs

    def finish(self, request: int) -> None:
        """See `SpeculativeTarget`. The surplus goes first, so that what is inserted ends with the row."""
        if self._speculates:
            self._drop_surplus(self._requests[request], self._progress[request].committed)
            del self._progress[request]
        super().finish(request)

    def abort(self, request: int) -> None:
        """See `SpeculativeTarget`."""
        if self._speculates:
            self._drop_surplus(self._requests[request], self._progress[request].committed)
            del self._progress[request]
        super().abort(request)

    # A step

    def prepare_decode(self, requests: list[int]) -> bool:
        """See `SpeculativeTarget.prepare_decode`."""
        return self._grow(requests) if self._config.spec_ahead else self._take_draft(requests)

    def draft_branches(self, requests: list[int]) -> list[Branches]:
        """See `SpeculativeTarget.draft_branches`."""
        return [self._branches(request) for request in requests]

    def write_draft(self, locs: list[int], layer: int, tags: list[int]) -> None:
        """See `SpeculativeTarget.write_draft`."""
        if layer == 0:
            self._locs = self._arena.place(locs, "reused", 0)
            self._pool.policy.begin_forward()
            self._pool.policy.metadata(self._locs)
        self._draft_pool.set_kv_buffer(layer, self._locs, *encode(tags, self._dtype))

    def read_draft(self, locs: list[int], layer: int) -> Rows:
        """See `SpeculativeTarget.read_draft`."""
        return decode(*self._draft_pool.get_kv_buffer(layer, torch.tensor(locs, dtype=torch.int64)))

    def drop_draft(self, requests: list[int]) -> None:
        """See `SpeculativeTarget.drop_draft`."""
        if not self._config.spec_ahead:
            self._allocator.restore(self._before_draft)

    def begin_verify(self, requests: list[int]) -> bool:
        """See `SpeculativeTarget.begin_verify`."""
        if self._config.spec_ahead:
            return True
        batch = [self._requests[request] for request in requests]
        return self._extend(batch, [running.length + self._layout.nodes for running in batch])

    def accept(self, requests: list[int], paths: Sequence[Sequence[int]], tokens: Sequence[Sequence[int]]) -> None:
        """See `SpeculativeTarget.accept`."""
        for request, path, accepted in zip(requests, paths, tokens, strict=True):
            running, progress = self._requests[request], self._progress[request]
            running.tokens.extend(accepted)
            if self._config.spec_ahead:
                self._move(running, progress.computed, path)
                progress.uncommitted.append(len(path))
            else:
                self._keep(running, progress.computed, path)
                progress.committed = running.length
            progress.computed += len(path)

    def commit(self, requests: list[int]) -> None:
        """See `SpeculativeTarget.commit`."""
        for request in requests:
            progress = self._progress[request]
            progress.committed += progress.uncommitted.pop(0)

    # Looking

    def raw_requests(self) -> dict[int, RequestView]:
        """See `EngineTarget.raw_requests`."""
        views = super().raw_requests()
        if not self._speculates:
            return views
        return {number: replace(view, committed=self._progress[number].committed) for number, view in views.items()}

    def raw_tree(self) -> list[NodeView]:
        """See `EngineTarget.raw_tree`."""
        views = super().raw_tree()
        if not self._config.bigram:
            return views
        return [replace(it, tokens=tuple(map(first, it.tokens)), after=second(it.tokens[-1])) for it in views]

    def raw_draft_contents(self, layer: int) -> Rows:
        """See `SpeculativeTarget.raw_draft_contents`."""
        return decode(*self._draft_pool.layer_buffers(layer))

    # Inside

    @property
    def _speculates(self) -> bool:
        return "spec" in self._config.features

    def _keys(self, tokens: list[int]) -> list[int]:
        return bigrams(tokens) if self._config.bigram else tokens

    def _insertable(self, request: int) -> int:
        if not self._speculates:
            return super()._insertable(request)
        return self._progress[request].committed - self._config.bigram

    def _extend(self, batch: list[Request], stops: list[int]) -> bool:
        """Give requests slots up to these lengths; False, and nothing is held, if there is no room."""
        starts = [running.length for running in batch]
        if not self._has_room(starts, stops):
            return False
        locs = self._allocator.alloc_extend(starts, stops, self._last_locs(batch))
        assert locs is not None
        rest = iter(locs)
        for running, start, stop in zip(batch, starts, stops, strict=True):
            running.append([next(rest) for _ in range(start, stop)])
        return True

    def _has_room(self, starts: list[int], stops: list[int]) -> bool:
        pages = self._allocator.full.pages_needed(starts, stops)
        return self._evictor.make_room(pages, pages)

    def _grow(self, requests: list[int]) -> bool:
        """V2: rows grow to what is committed and the reserve, in whole pages (SGLang PR 31616)."""
        batch = [self._requests[request] for request in requests]
        goals = [self._layout.ceil(self._progress[request].committed + self._layout.reserve) for request in requests]
        stops = [max(running.length, goal) for running, goal in zip(batch, goals, strict=True)]
        if not self._has_room([running.length for running in batch], stops):
            return False
        for request in requests:
            self.evict_window(request)
        return self._extend(batch, stops)

    def _take_draft(self, requests: list[int]) -> bool:
        """V1: the draft's slots are taken and written to the row, whose length they do not count for."""
        batch = [self._requests[request] for request in requests]
        lengths = [running.length for running in batch]
        stops = [self._layout.end(length) for length in lengths]
        if not self._has_room(lengths, stops):
            return False
        for request in requests:
            self.evict_window(request)
        self._before_draft = self._allocator.backup()
        self._extend(batch, stops)
        for running, length in zip(batch, lengths, strict=True):
            running.length = length
        return True

    def _branches(self, request: int) -> Branches:
        """A draft's places; the page that it starts in is copied for all branches but the first."""
        row, computed = self._requests[request].row, self._progress[request].computed
        topk = range(self._layout.topk)
        heads = [row[list(self._layout.head(computed, branch))] for branch in topk]
        for head in heads[1:]:
            self._draft_pool.move_kv_cache(head, heads[0])
        slots = [row[list(self._layout.branch(computed, branch))] for branch in topk]
        return Branches(*(tuple(tuple(part.tolist()) for part in parts) for parts in (slots, heads)))

    def _keep(self, running: Request, start: int, path: Sequence[int]) -> None:
        """V1: keep the slots of accepted nodes, and free the others: slot by slot, or by whole pages."""
        end = start + len(path)
        if self._config.page_size == 1:
            kept = [int(running.row[start + node]) for node in path]
            rejected = [loc for node, loc in enumerate(running.locs(start, running.length)) if node not in path]
            running.row[start:end] = torch.tensor(kept)
            if rejected:
                self._allocator.free(rejected)
            running.length = end
            return
        self._move(running, start, path)
        self._drop_surplus(running, end)

    def _move(self, running: Request, start: int, path: Sequence[int]) -> None:
        """The KV of accepted nodes moves to the front, in all layers of the target."""
        if list(path) == list(range(len(path))):
            return
        sources = running.row[[start + node for node in path]]
        self._hybrid().move_kv_cache(running.row[start : start + len(path)], sources)

    def _drop_surplus(self, running: Request, length: int) -> None:
        """A request ends at `length`: give back the whole pages behind."""
        surplus = running.locs(self._layout.ceil(length), running.length)
        if surplus:
            self._allocator.free(surplus)
        running.length = length
