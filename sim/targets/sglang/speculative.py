"""Speculative decode against a release's own allocation, release and eviction, on an engine or on a decode node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ....models.config import Config
from ..base import Rows
from ..engine import Admission, RequestView
from ..speculative import Branches, SpecRules
from .disagg import DisaggDriver
from .disagg_release import DecodeRelease
from .engine import EngineDriver
from .engine_release import held, hold
from .pools import HybridPool
from .settings import SETTINGS
from .spec_release import SpecRelease

__all__ = ["SpecDriver", "SpecNodeDriver"]

VOCABULARY = 1 << 31


@dataclass
class Progress:
    """How far a request is.

    Attributes:
        computed: tokens whose KV is final.
        uncommitted: accepted tokens of each step that the scheduler does not know of, the oldest first.
        claimed: bonus tokens that preparations count as committed already.
    """

    computed: int
    uncommitted: list[list[int]] = field(default_factory=list)
    claimed: int = 0


class SpecDriver(EngineDriver):
    """An engine, or where the config says so one that decodes speculatively.

    The methods are those of `SpeculativeTarget`.
    """

    _spec: SpecRelease | None = None

    def attach_spec(self, spec: SpecRelease, draft_pool: HybridPool, config: Config, *parts: Any) -> None:
        """Build the rest of an engine around an empty pool and allocator, and give it a draft model's pool.

        Args:
            spec: the release's code.
            draft_pool: the adapter of the draft's pool, which shares nothing with the target's.
            config: the shape of the cache.
            parts: what `EngineDriver.attach_engine` takes.

        Raises:
            TargetError: the release has no such way to give slots to a draft.
        """
        spec.check(config)
        self.attach_engine(*parts)
        self.attach_draft(spec, draft_pool, config, self._tokens)

    def attach_draft(self, spec: SpecRelease, draft_pool: HybridPool, config: Config, allocator: Any) -> None:
        """Give the cache under construction a draft model's pool; see `attach_spec`."""
        SETTINGS.speculate(config)
        self._spec, self._rules, self._draft_pool = spec, spec.rules(config), draft_pool
        draft_pool.build(config).register_mapping(allocator.full_to_swa_index_mapping)
        self._progress: dict[int, Progress] = {}
        self._nodes: Any = None

    def attach_engine(self, *parts: Any) -> None:
        self.without_spec()
        super().attach_engine(*parts)

    def without_spec(self) -> None:
        """The next cache never drafts."""
        self._spec = None
        SETTINGS.speculate(None)

    @property
    def spec(self) -> SpecRelease:
        """The release's code for speculative decode."""
        assert self._spec is not None
        return self._spec

    def spec_rules(self) -> SpecRules:
        return self._rules

    def admit(self, request: int, tokens: list[int]) -> Admission | None:
        admission = super().admit(request, tokens)
        if admission is not None and self._spec is not None:
            self._progress[request] = Progress(admission.cached)
            self.requests[request].vocab_size = VOCABULARY
        return admission

    def prefill(self, request: int, count: int) -> list[int] | None:
        locs = super().prefill(request, count)
        if locs is not None and self._spec is not None:
            self._progress[request].computed = held(self.requests[request], "kv_committed_len")
        return locs

    # A step

    def prepare_decode(self, requests: list[int]) -> bool:
        """See `SpeculativeTarget.prepare_decode`.

        V2 asks for room as the scheduler does. Under V1 the scheduler asks for more than a step needs; what is asked
        for here is what the draft takes when it begins.
        """
        if not self._config.spec_ahead:
            return self._has_room(requests, [self._draft_end(request) for request in requests])
        batch = self._batch(requests)
        if not batch.check_decode_mem():
            return False
        with self._knowing_the_bonus(batch.reqs):
            self.spec.prepare_v2(batch, self._config)
        if self._rules.claims_bonus:
            for request in requests:
                self._progress[request].claimed += 1
        return True

    def _has_room(self, requests: list[int], stops: list[int]) -> bool:
        """Evict as the allocation of tokens up to these lengths does, and see whether their pages are there."""
        starts = [self._progress[request].computed for request in requests]
        pages = sum(self._pages(stop) - self._pages(start) for start, stop in zip(starts, stops, strict=True))
        return self._room(pages, sum(stops) - sum(starts), len(requests))

    def _stride(self, request: int) -> int:
        """How far apart two branches of a draft begin."""
        size, steps = self._config.page_size, self._config.spec_steps
        if size == 1 or self._config.spec_topk == 1:
            return steps
        return self._pages(self._progress[request].computed % size + steps) * size

    def _draft_end(self, request: int) -> int:
        """The length up to which V1 takes slots for a draft."""
        computed, topk = self._progress[request].computed, self._config.spec_topk
        if self._config.page_size > 1 and topk > 1:
            computed -= computed % self._config.page_size
        return computed + topk * self._stride(request)

    @contextmanager
    def _knowing_the_bonus(self, entries: list[Any]) -> Iterator[None]:
        """A scheduler knows one token more than are committed. Which one does not matter here: it has no KV.

        Up to 0.5.13 windows are evicted on every n-th step only; see `EngineRelease.window_step`.
        """
        steps = [entry.decode_batch_idx for entry in entries]
        for entry, count in zip(entries, steps, strict=True):
            entry.decode_batch_idx = self._release.window_step(count)
            entry.output_ids.append(0)
        try:
            yield
        finally:
            for entry, count in zip(entries, steps, strict=True):
                entry.decode_batch_idx = count + 1
                entry.output_ids.pop()

    def draft_branches(self, requests: list[int]) -> list[Branches]:
        batch = self._batch(requests)
        if self._config.spec_ahead:
            locs = self.spec.draft_v2(batch, self._config, self._draft_pool.kv)
        else:
            with self._knowing_the_bonus(batch.reqs):
                locs = self.spec.draft_v1(batch, self._config, self._draft_pool.kv, self._tokens)
        shape = (len(requests), self._config.spec_topk, self._config.spec_steps)
        return [self._branches(*pair) for pair in zip(requests, locs.view(shape), strict=True)]

    def _branches(self, request: int, locs: torch.Tensor) -> Branches:
        return Branches(tuple(tuple(branch) for branch in locs.tolist()), self._copied(request))

    def _copied(self, request: int) -> tuple[tuple[int, ...], ...]:
        """Where each branch reads the tokens of the page in which it starts, as ``generate_draft_decode_kv_indices``
        and the copying before it have it."""
        size, topk, computed = self._config.page_size, self._config.spec_topk, self._progress[request].computed
        if size == 1 or topk == 1:
            return ((),) * topk
        last = computed % size
        starts = [computed - last + branch * self._stride(request) for branch in range(topk)]
        entry = self.requests[request]
        return tuple(tuple(self._row(entry, start, start + last).tolist()) for start in starts)

    def write_draft(self, locs: list[int], layer: int, tags: list[int]) -> None:
        if layer == 0:
            self._draft_pool.begin(torch.tensor(locs, dtype=torch.int64), self._tokens, precomputed=False)
        self._draft_pool.write(layer, tags)

    def read_draft(self, locs: list[int], layer: int) -> Rows:
        return self._draft_pool.read(layer, torch.tensor(locs, dtype=torch.int64), self._tokens)

    def drop_draft(self, requests: list[int]) -> None:
        """See `SpeculativeTarget.drop_draft`. The releases restore before the draft runs."""

    def begin_verify(self, requests: list[int]) -> bool:
        """See `SpeculativeTarget.begin_verify`. V1 drafts and verifies within one step of the scheduler, which asks
        for room before; here others may have taken it by now."""
        self._nodes = self._batch(requests)
        if self._config.spec_ahead:
            self.spec.verify_v2(self._nodes, self._config)
            return True
        nodes = self._config.spec_draft_tokens
        if not self._has_room(requests, [self._progress[request].computed + nodes for request in requests]):
            return False
        self.spec.verify_v1(self._nodes, self._config)
        return True

    def accept(self, requests: list[int], paths: Sequence[Sequence[int]], tokens: Sequence[Sequence[int]]) -> None:
        if self._config.spec_ahead:
            accepted, counts = self._accepted(paths)
            self.spec.accept_v2(self._nodes, self._config, accepted, counts, self._tokens)
        else:
            self.spec.accept_v1(self._nodes, self._config, paths, tokens, self._tokens)
        for request, path, known in zip(requests, paths, tokens, strict=True):
            progress = self._progress[request]
            progress.computed += len(path)
            if self._config.spec_ahead:
                progress.uncommitted.append(list(known))

    def _accepted(self, paths: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        width, nodes = self._config.spec_steps + 1, self._config.spec_draft_tokens
        index = torch.full((len(paths), width), -1, dtype=torch.int32)
        for row, path in enumerate(paths):
            index[row, : len(path)] = torch.tensor(path, dtype=torch.int32) + row * nodes
        return index, torch.tensor([len(path) for path in paths], dtype=torch.int32)

    def commit(self, requests: list[int]) -> None:
        """See `SpeculativeTarget.commit`. What the scheduler's result processing does with a request's lengths."""
        for request in requests:
            entry, progress = self.requests[request], self._progress[request]
            tokens = progress.uncommitted.pop(0)
            entry.output_ids.extend(tokens)
            claimed = min(progress.claimed, 1)
            progress.claimed -= claimed
            hold(entry, "kv_committed_len", held(entry, "kv_committed_len") + len(tokens) - claimed)

    def finish(self, request: int) -> None:
        self._drop_step(request)
        super().finish(request)

    def abort(self, request: int) -> None:
        self._drop_step(request)
        super().abort(request)

    def _drop_step(self, request: int) -> None:
        """A request leaves in the middle of a step.

        Up to 0.5.14 the bonus that was claimed for this step would be inserted too, for the verification that is under
        way writes its KV. The tapes' requests may leave before that, so the claim is taken back.
        """
        if self._spec is None:
            return
        progress, entry = self._progress.pop(request, None), self.requests[request]
        if progress is not None and progress.claimed:
            hold(entry, "kv_committed_len", held(entry, "kv_committed_len") - progress.claimed)

    def raw_requests(self) -> dict[int, RequestView]:
        views = super().raw_requests()
        if self._spec is None:
            return views
        return {number: replace(view, committed=self._committed(number, view)) for number, view in views.items()}

    def _committed(self, request: int, view: RequestView) -> int:
        entry = self.requests[request]
        if not self._has_row(entry):
            return len(view.row)
        claimed = self._progress[request].claimed if request in self._progress else 0
        return int(held(entry, "kv_committed_len")) - claimed

    def raw_draft_contents(self, layer: int) -> Rows:
        return self._draft_pool.contents(layer)

    def _batch(self, requests: list[int]) -> Any:
        entries = [self.requests[request] for request in requests]
        lens = [self._progress[request].computed for request in requests]
        return self.spec.batch(self._config, self.tree, entries, lens)


_UNKNOWN = 0
"""Stands for an output token that is sampled and not known here yet."""

_NO_END = 1 << 20
"""New tokens that no tape comes to."""


class SpecNodeDriver(SpecDriver, DisaggDriver):
    """A decode node, an engine that speculates, or where the config says so both.

    On a node ``output_ids`` end with a token that the scheduler knows and that has no KV yet. The first one comes with
    the prompt, and is node 0 of the first step. The methods are those of `SpecNodeTarget`.
    """

    def attach_spec_node(
        self,
        release: DecodeRelease,
        spec: SpecRelease,
        draft_pool: HybridPool,
        config: Config,
        pool: HybridPool,
        kv: Any,
        allocator: Any,
    ) -> None:
        """Build the rest of a decode node around an empty pool and allocator, and give it a draft model's pool.

        Args:
            release: the release's code for decode nodes.
            spec: its code for speculative decode.
            draft_pool: the adapter of the draft's pool, which shares nothing with the target's.
            config: the shape of the cache.
            pool: the adapter of the KV pool, which built `kv`.
            kv: the release's KV pool.
            allocator: its allocator.

        Raises:
            TargetError: the release has no such way to give slots to a draft.
        """
        spec.check(config)
        self.without_spec()
        self.attach_draft(spec, draft_pool, config, allocator)
        self.attach_node(release, config, pool, kv, allocator)

    @property
    def _speculates_on_node(self) -> bool:
        return self._node is not None and self._spec is not None

    def enqueue(self, request: int, tokens: list[int], most: int) -> bool:
        if not super().enqueue(request, tokens, most):
            return False
        self.requests[request].vocab_size = VOCABULARY
        return True

    def receive_draft(self, layer: int, slots: list[int], tags: list[int]) -> None:
        self._draft_pool.receive(layer, torch.tensor(slots, dtype=torch.int64), tags)

    def start(self) -> None:
        super().start()
        if not self._speculates_on_node:
            return
        for entry in self.node.scheduler.running_batch.reqs:
            self._progress.setdefault(int(entry.rid), Progress(held(entry, "kv_committed_len")))

    def accept(self, requests: list[int], paths: Sequence[Sequence[int]], tokens: Sequence[Sequence[int]]) -> None:
        """See `SpeculativeTarget.accept`. Where the release itself appends what was accepted (V1), that is what comes
        after each node of the path. It would stop at the most tokens that a request may have; here the tape says when a
        request is done."""
        if not self._speculates_on_node or self._config.spec_ahead:
            super().accept(requests, paths, tokens)
            return
        limits = [self.requests[request].sampling_params for request in requests]
        most = [limit.max_new_tokens for limit in limits]
        for request, known, limit in zip(requests, tokens, limits, strict=True):
            self.requests[request].output_ids[-1] = known[0]
            limit.max_new_tokens = _NO_END
        super().accept(requests, paths, [[*known[1:], _UNKNOWN] for known in tokens])
        for limit, count in zip(limits, most, strict=True):
            limit.max_new_tokens = count

    def commit(self, requests: list[int]) -> None:
        if not self._speculates_on_node:
            super().commit(requests)
            return
        for request in requests:
            entry = self.requests[request]
            entry.output_ids.pop()
            self._forget_copy(entry)
        super().commit(requests)
        for request in requests:
            self.requests[request].output_ids.append(_UNKNOWN)

    @staticmethod
    def _forget_copy(entry: Any) -> None:
        """Let a request copy its tokens anew.

        From 0.5.22 an insertion calls ``refresh_fill_ids``, which appends the new outputs to a copy: a scheduler's
        outputs never change. `_UNKNOWN` does, and ``_pre_alloc`` copies it when a request resumes (all releases).
        """
        copied = getattr(entry, "full_untruncated_fill_ids", None)
        if copied:
            entry.full_untruncated_fill_ids = copied[:0]

    def retract(self, request: int) -> None:
        self._drop_step(request)
        super().retract(request)

    @contextmanager
    def _knowing_the_bonus(self, entries: list[Any]) -> Iterator[None]:
        """On a node the scheduler knows it already."""
        with super()._knowing_the_bonus(entries):
            outputs = [entry.output_ids.pop() for entry in entries] if self._speculates_on_node else []
            try:
                yield
            finally:
                for entry, output in zip(entries, outputs, strict=False):
                    entry.output_ids.append(output)
