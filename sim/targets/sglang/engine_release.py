"""A release's own code at the level of requests, and how this release wants to be called.

Its scheduler does not run. This module makes the scheduler's calls for one request in the same order, by the same
methods of ``Req`` and ``ScheduleBatch``. A batch has only the few fields that allocation and window eviction read.
"""

from __future__ import annotations

import importlib
import inspect
import os
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from ....models.config import Config
from ..base import TargetError
from .batch_results import BatchResults
from .settings import SETTINGS
from .tree import in_rust

__all__ = ["PYTHON_CORE", "RUST_CORE", "SWA_RADIX", "EngineRelease", "NoSpeculation", "held", "hold", "hold_length"]


class _Mode:
    """Stands for ``ForwardMode``: a decode step, or a prefill."""

    def __init__(self, decode: bool) -> None:
        self._decode = decode

    def is_decode(self) -> bool:
        return self._decode

    def is_extend(self) -> bool:
        return not self._decode


class NoSpeculation:
    """Stands for ``SpeculativeAlgorithm``."""

    @staticmethod
    def is_none() -> bool:
        """Nothing drafts."""
        return True

    @staticmethod
    def is_eagle() -> bool:
        """Neither does EAGLE."""
        return False

    @staticmethod
    def supports_spec_v2() -> bool:
        """So no draft keeps slots ahead."""
        return False

    @staticmethod
    def build_disagg_draft_input(*_what: object) -> None:
        """There is no draft."""


def held(request: Any, name: str) -> Any:
    """A fact about a request's KV: its own attribute up to 0.5.15, of its ``kv`` record later."""
    names = vars(request)
    return names[name] if name in names else getattr(request.kv, name)


def hold(request: Any, name: str, value: int) -> None:
    """Set such a fact."""
    setattr(request if name in vars(request) else request.kv, name, value)


def hold_length(request: Any, length: int) -> None:
    """A request has slots for so many tokens, and the scheduler knows of all of them."""
    hold(request, "kv_committed_len", length)
    hold(request, "kv_allocated_len", length)


def batch_class(schedule_batch: Any) -> Any:
    """A subclass of the release's ``ScheduleBatch`` that is built from requests alone.

    Args:
        schedule_batch: the release's class.
    """

    class Batch(schedule_batch):  # type: ignore[misc]
        """Requests that run one step together."""

        def __init__(self, tree: Any, requests: list[Any], extend: tuple[int, int] | None = None) -> None:
            """A decode step, or with `extend` the prefill of these positions of one request."""
            self.reqs = requests
            self.tree_cache = tree
            self.req_to_token_pool = tree.req_to_token_pool
            self.token_to_kv_pool_allocator = tree.token_to_kv_pool_allocator
            self.forward_mode = _Mode(decode=extend is None)
            self.spec_algorithm = NoSpeculation()
            self.model_config = SimpleNamespace(is_encoder_decoder=False)
            self.enable_overlap = False
            self.device = "cpu"
            self.hisparse_coordinator = None
            self.forward_iter = 0
            if extend is None:
                indices = [held(request, "req_pool_idx") for request in requests]
                lens = [held(request, "kv_committed_len") for request in requests]
                self.req_pool_indices = self.req_pool_indices_cpu = torch.tensor(indices, dtype=torch.int64)
            else:
                start, stop = extend
                lens = [stop]
                self.prefix_lens, self.extend_lens = [start], [stop - start]
                self.extend_num_tokens = stop - start
            self.seq_lens = self.seq_lens_cpu = torch.tensor(lens, dtype=torch.int64)

        def maybe_evict_swa(self) -> None:
            """Allocation evicts no window: that is an event of its own."""

        def evict_windows(self) -> None:
            """The release's preparation of a decode step."""
            super().maybe_evict_swa()

    return Batch


PYTHON_CORE = "python-core"
RUST_CORE = "rust-core"
SWA_RADIX = "swa-radix"

_BACKENDS = {PYTHON_CORE: "python", RUST_CORE: "rust"}
_BACKEND = "SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND"
_CACHE = "sglang.srt.mem_cache"
_ROW_SURPLUS = "get_req_to_token_extra_context_len"


def _sampling() -> SimpleNamespace:
    """Test double of ``SamplingParams``: no sampled token ends a request."""
    return SimpleNamespace(
        custom_params=None, max_new_tokens=1 << 20, ignore_eos=True, stop_strs=(), stop_regex_strs=(), top_k=1
    )


def _optional(name: str) -> Any:
    """A module of the release, or None if it has no such module."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None


class EngineRelease:
    """The modules of the loaded release that the engine level needs.

    Attributes:
        unified: ``unified_radix_cache``.
        allocation: the module that has ``alloc_for_extend`` and ``alloc_for_decode``.
        common: ``mem_cache.common``.
        results: how its scheduler processes the results of a batch.
    """

    def __init__(self) -> None:
        self.unified: Any = importlib.import_module(f"{_CACHE}.unified_radix_cache")
        self.common: Any = importlib.import_module(f"{_CACHE}.common")
        # Allocation has its own module from 0.5.16.
        moved = not hasattr(self.common, "alloc_for_extend")
        self.allocation: Any = importlib.import_module(f"{_CACHE}.allocation") if moved else self.common
        self._sizing = _optional(f"{_CACHE}.allocation_sizing")
        self._base: Any = importlib.import_module(f"{_CACHE}.base_prefix_cache")
        self._params: Any = importlib.import_module(f"{_CACHE}.cache_init_params")
        self._memory_pool: Any = importlib.import_module(f"{_CACHE}.memory_pool")
        schedule: Any = importlib.import_module("sglang.srt.managers.schedule_batch")
        self._request_class = schedule.Req
        self.results = BatchResults.of(Path(*importlib.import_module("sglang.srt.managers").__path__))
        self.batch_class = batch_class(schedule.ScheduleBatch)
        self._every_nth = not hasattr(schedule.envs, "SGLANG_SWA_EVICTION_INTERVAL")
        self._priority_of = Config().priority_of
        self._token_ids: Any = list
        self._token_ids = type(self.request(0, [0]).output_ids)

    def rows(self, requests: int, length: int) -> Any:
        """A new ``req_to_token`` table. The last row is never handed out: a write that overflows the one before it ends
        there, as it would in foreign memory."""
        table = self._memory_pool.ReqToTokenPool(requests + 1, length, "cpu", False)
        table.free_slots = table.free_slots[:-1]
        return table

    def row_width(self, config: Config) -> int:
        """Tokens a row of ``req_to_token`` has: as many as the release's server gives a model with this context length.

        Up to 0.5.12.post1 the surplus is computed where the pools are built (``model_runner_kv_cache_mixin``).
        """
        if not config.context_len:
            return config.full_size + config.page_size
        sizing = self.allocation if hasattr(self.allocation, _ROW_SURPLUS) else self._sizing
        if sizing is None:
            return config.context_len + 4 + (SETTINGS.speculative_num_draft_tokens or 0)
        surplus = getattr(sizing, _ROW_SURPLUS)
        arguments = [SETTINGS] if inspect.signature(surplus).parameters else []
        return config.context_len + int(surplus(*arguments))

    def tree_params(self, config: Config, rows: Any, allocator: Any, window: int, *, disable: bool) -> Any:
        """The parameters of a tree for both pools; with `disable`, of one that keeps nothing."""
        kinds = self.unified.ComponentType
        self._priority_of = config.priority_of
        return self._params.CacheInitParams(
            disable=disable,
            req_to_token_pool=rows,
            token_to_kv_pool_allocator=allocator,
            page_size=config.page_size,
            sliding_window_size=window,
            tree_components=(kinds.FULL, kinds.SWA),
            is_eagle=config.bigram,
            eviction_policy=config.eviction_policy,
        )

    def tree(self, config: Config, rows: Any, allocator: Any, window: int, *, disable: bool = False) -> tuple[Any, Any]:
        """A new, empty prefix tree for both pools, and the parameters it was made from."""
        backend = _BACKENDS.get(config.policy)
        if backend is not None:
            os.environ[_BACKEND] = backend
        params = self.tree_params(config, rows, allocator, window, disable=disable)
        if config.policy == SWA_RADIX:
            legacy: Any = importlib.import_module(f"{_CACHE}.swa_radix_cache")
            return legacy.SWARadixCache(params), params
        # Nodes are numbered in a process; a tape must read the same whatever was played before it.
        self.unified.UnifiedTreeNode.counter = 0
        tree = self.unified.UnifiedRadixCache(params)
        if backend is not None and in_rust(tree) != (config.policy == RUST_CORE):
            raise TargetError(f"asked for the tree core in {backend}, the release took the other: {self._why(params)}")
        return tree, params

    @staticmethod
    def _why(params: Any) -> str:
        """Why a release goes on without its Rust core; it says so in a log only."""
        registry: Any = importlib.import_module(f"{_CACHE}.unified_cache.tree_core_registry")
        reason = getattr(registry, "_rust_fallback_reason", None)
        return str(reason(params)) if reason else "it does not say why"

    def request(self, request: int, tokens: list[int]) -> Any:
        """A new request of the release's own class, with the priority that the config of the last tree gives it."""
        ids = array("q", tokens) if self._token_ids is array else list(tokens)
        entry = self._request_class(str(request), "", ids, _sampling())
        entry.priority = self._priority_of(request) or None
        return entry

    def window_step(self, steps: int) -> int:
        """The number of decode steps at which the release evicts a window, for a request after this many.

        Up to 0.5.13 it does so on every n-th step only, starting with the first; from 0.5.14 n is a setting that
        `ENVIRONMENT` makes 1.
        """
        return min(steps, 1) if self._every_nth else steps

    def admit(self, tree: Any, request: Any) -> int | None:
        """Match a request, load back the part that is only on the host, and lock all of it, as ``PrefillAdder`` does.

        Returns:
            tokens that come from the host, or None if the release puts the request off.
        """
        request.init_next_round_input(tree)
        loaded = 0
        with self._locked(tree, request.last_node):
            if self._is_on_host(request):
                answer = self._load_back(tree, request)
                if answer is None:
                    return None
                loaded = answer
            self._lock(tree, request)
        return loaded

    @staticmethod
    def _is_on_host(request: Any) -> bool:
        if hasattr(type(request), "needs_host_load_back"):
            wanted: bool = request.needs_host_load_back()
            return wanted
        return bool(request.host_hit_length > 0)

    def _load_back(self, tree: Any, request: Any) -> int | None:
        params = self._base.InitLoadBackParams(
            best_match_node=request.best_match_node, host_hit_length=request.host_hit_length, req=request
        )
        with ExitStack() as locks:
            if hasattr(tree, "lock"):  # from 0.5.22 on
                locks.enter_context(self._host_locked(tree, request.best_match_node))
                locks.enter_context(self._locked(tree, request.best_match_node))
            answer = tree.init_load_back(params)
        if answer is None:
            return None
        found, request.last_node = answer
        if "prefix_len" in vars(request):
            loaded: int = found
            request.host_loaded_length = loaded
            request.prefix_len += loaded
        else:
            loaded = len(found)
            request.prefix_indices = torch.cat([request.prefix_indices, found])
        hold(request, "cache_protected_len", self.prefix(request))
        return loaded

    @contextmanager
    def _locked(self, tree: Any, node: Any) -> Iterator[None]:
        taken = tree.inc_lock_ref(node)
        if hasattr(taken, "to_dec_params"):
            receipt = taken.to_dec_params()
        else:  # up to 0.5.11
            receipt = self._base.DecLockRefParams(swa_uuid_for_lock=taken.swa_uuid_for_lock)
        try:
            yield
        finally:
            tree.dec_lock_ref(node, receipt)

    @staticmethod
    @contextmanager
    def _host_locked(tree: Any, node: Any) -> Iterator[None]:
        receipt = tree.inc_host_lock_ref(node).to_dec_params()
        try:
            yield
        finally:
            tree.dec_host_lock_ref(node, receipt)

    @staticmethod
    def _lock(tree: Any, request: Any) -> None:
        if hasattr(tree, "lock"):
            request.lock = tree.lock(request.last_node)
            return
        if "lock_receipt" in vars(request):  # 0.5.20 and 0.5.21
            request.lock_receipt = tree.inc_lock_ref(request.last_node).to_dec_params()
            return
        request.swa_uuid_for_lock = tree.inc_lock_ref(request.last_node).swa_uuid_for_lock
        if "skip_lock_node_ids" in vars(request):
            request.skip_lock_node_ids = {}

    def unlock(self, tree: Any, request: Any) -> None:
        """Let go of the lock of a request that owns nothing else."""
        if hasattr(tree, "lock"):
            tree.unlock(request.lock)
        elif "lock_receipt" in vars(request):
            tree.dec_lock_ref(request.last_node, request.lock_receipt)
        else:
            tree.dec_lock_ref(
                request.last_node, self._base.DecLockRefParams(swa_uuid_for_lock=request.swa_uuid_for_lock)
            )

    @staticmethod
    def prefix(request: Any) -> int:
        """Tokens that are computed or cached: where the next chunk starts."""
        if "prefix_len" in vars(request):
            length: int = request.prefix_len
            return length
        return len(request.prefix_indices)

    @staticmethod
    def matched(tree: Any, request: Any) -> list[int]:
        """Full locs of the prefix of a request that has no row yet."""
        found = request.prefix_indices if "prefix_indices" in vars(request) else tree.prefix_device_indices(request)
        locs: list[int] = found.tolist()
        return locs

    def evicted(self, request: Any) -> int:
        """Tokens from the front up to which a request gave up its SWA slots."""
        kv = vars(request).get("kv")
        if hasattr(kv, "get_evicted_seqlen"):
            length: int = kv.get_evicted_seqlen(self.unified.ComponentType.SWA)
        else:
            length = held(request, "swa_evicted_seqlen")
        return length

    @staticmethod
    def begin_chunk(request: Any, start: int, stop: int) -> None:
        """Tell a request which tokens its next chunk covers."""
        request.init_next_round_input()
        names = vars(request)
        if "extend_end" in names:
            request.extend_end = stop
        elif "extend_range" in names:
            request.set_extend_range(start, stop)
        else:
            request.set_extend_input_len(stop - start)
            if "fill_len" in names:
                request.fill_len = stop
            else:
                request.fill_ids = request.fill_ids[:stop]

    def checkpoint(self, tree: Any, request: Any, last: bool) -> None:
        """Insert the computed part of the prompt."""
        if hasattr(self.common, "checkpoint_kv_cache"):
            self.common.checkpoint_kv_cache(request, tree)
        elif last:
            self.common.maybe_cache_unfinished_req(request, tree)
        else:
            self.common.maybe_cache_unfinished_req(request, tree, chunked=True)

    def release(self, tree: Any, request: Any, insert: bool) -> None:
        """Give everything back, inserted or not."""
        if hasattr(self.common, "checkpoint_kv_cache"):
            self.common.release_kv_cache(request, tree, checkpoint=insert)
        else:
            self.common.release_kv_cache(request, tree, is_insert=insert)

    def evict(self, tree: Any, full: int, swa: int) -> None:
        """Ask the tree for tokens of both pools."""
        tree.evict(self._base.EvictParams(num_tokens=full, swa_num_tokens=swa))
