"""A release's decode node: its two queues, its request table and its way back from retraction.

``DecodePreallocQueue`` and ``DecodeTransferQueue`` are built by their own constructors; only the network
around them is not there (`disagg_stand_ins`).
"""

from __future__ import annotations

import dis
import importlib
import inspect
import logging
from types import CodeType
from typing import Any

import torch

from ....models.config import Config
from ..base import TargetError
from ..disagg import MAX_REQUESTS, Rules
from . import disagg_stand_ins as stand_ins
from .engine_release import EngineRelease
from .leaves import install

__all__ = ["DecodeRelease"]

_DISAGG = "sglang.srt.disaggregation"


def _inner(method: Any, name: str) -> CodeType:
    """The code of a function that a method defines."""
    return next(it for it in method.__code__.co_consts if isinstance(it, CodeType) and it.co_name == name)


def _uses(method: Any, name: str) -> int:
    """How often a method's code names something. Its text is not asked: a mutant's is not that of the file."""
    return sum(instruction.argval == name for instruction in dis.get_instructions(method))


def _queue_class(base: Any, manager: stand_ins.Manager) -> Any:
    """The release's ``DecodePreallocQueue`` without a network, which tells when it has looked into the tree."""

    class Queue(base):  # type: ignore[misc]
        def _init_kv_manager(self) -> stand_ins.Manager:
            return manager

        def _match_prefix_and_lock(self, request: Any) -> Any:
            found = super()._match_prefix_and_lock(request)
            self.scheduler.future_map.inserted(request)  # a node may have been split
            return found

    return Queue


class DecodeRelease:
    """The modules of the loaded release that a decode node needs.

    Attributes:
        engine: the release's code for requests.
    """

    def __init__(self, engine: EngineRelease) -> None:
        self.engine = engine
        self.decode: Any = importlib.import_module(f"{_DISAGG}.decode")
        self._utils: Any = importlib.import_module(f"{_DISAGG}.utils")
        self._state_type: Any = importlib.import_module(f"{_DISAGG}.base.conn").StateType
        self.schedule: Any = importlib.import_module("sglang.srt.managers.schedule_batch")
        self._queue_class = _queue_class(self.decode.DecodePreallocQueue, stand_ins.Manager([self._state_type.SWA]))
        logging.getLogger(self.decode.__name__).disabled = True  # that a request is refused or aborted is no news here
        mixin: Any = importlib.import_module(f"{_DISAGG}.decode_schedule_batch_mixin")
        install(stand_ins.leaves(mixin.ScheduleBatchDisaggregationDecodeMixin))

    def rows(self, config: Config) -> Any:
        """A new ``DecodeReqToTokenPool``: room for running requests and for as many that wait for their KV."""
        return self.decode.DecodeReqToTokenPool(
            size=MAX_REQUESTS,
            max_context_len=config.full_size + config.page_size,
            device="cpu",
            enable_memory_saver=False,
            pre_alloc_size=MAX_REQUESTS,
        )

    def tree(self, config: Config, rows: Any, allocator: Any) -> Any:
        """The prefix tree of a new decode node, or its test double if the node keeps none."""
        window = max(1, config.window - 1)
        try:
            chunk: Any = importlib.import_module("sglang.srt.mem_cache.chunk_cache")
        except ModuleNotFoundError:  # from 0.5.23 on it is a tree that is switched off
            chunk = None
        if config.decode_tree or chunk is None:
            return self.engine.tree(config, rows, allocator, window, disable=not config.decode_tree)[0]
        return chunk.SWAChunkCache(self.engine.tree_params(config, rows, allocator, window, disable=True))

    def metadata(self) -> tuple[Any, Any]:
        """Buffers for the sender's first token, and the allocator of their indices."""
        arguments: dict[str, Any] = {
            "size": 2 * MAX_REQUESTS,
            "hidden_size": 1,
            "hidden_states_dtype": torch.float32,
            "max_top_logprobs_num": 1,
        }
        if "max_sampling_mask_tokens" in inspect.signature(self._utils.MetadataBuffers.__init__).parameters:
            arguments["max_sampling_mask_tokens"] = 0
        return self._utils.MetadataBuffers(**arguments), self._utils.ReqToMetadataIdxAllocator(2 * MAX_REQUESTS)

    def queues(self, known: dict[str, Any]) -> tuple[Any, Any]:
        """The preallocation queue and the transfer queue."""
        transfer = self._made(self.decode.DecodeTransferQueue, known)
        return self._made(self._queue_class, {**known, "transfer_queue": transfer}), transfer

    @staticmethod
    def _made(queue: Any, known: dict[str, Any]) -> Any:
        wanted = list(inspect.signature(queue.__init__).parameters)[1:]
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise TargetError(f"{queue.__name__} wants {', '.join(unknown)}; the adapter needs an update")
        return queue(**{name: known[name] for name in wanted})

    def rules(self, tree: bool) -> Rules:
        """How this release counts, read off its methods."""
        queue = self.decode.DecodePreallocQueue
        required = queue._prealloc_required_tokens.__code__.co_names
        budget = queue._swa_tail_allocatable_token_budget
        radix_aware = hasattr(queue, "_reclaim_swa_tail_capacity")
        # Preallocation has a function of its own from 0.5.15 on.
        allocates = getattr(self.decode, "alloc_for_decode_prealloc", queue._pre_alloc).__code__.co_names
        resumes = queue.resume_retracted_reqs
        return Rules(
            whole_pages="ceil_align" in required,
            reserves_swa=tree or "disable_radix_cache" not in required,
            swa_evictable="swa_evictable_size" in budget.__code__.co_names,
            swa_refreshed="extra_reserved_reqs" in inspect.signature(budget).parameters,
            tail_after_prefix=radix_aware,
            whole_charged=False,
            wide_tail=tree and radix_aware,
            sender_skips_cached="total_prefix_len" in _inner(queue.pop_preallocated, "_swa_payload").co_freevars,
            window_before=True,
            asks_whole=_uses(queue.pop_preallocated, "_required_alloc_tokens") > 1,
            records_tail=not {"swa_evicted_seqlen", "set_evicted_seqlen"}.isdisjoint(allocates),
            adds_evictable=True,
            resumes_swa_anew=_uses(resumes, "_swa_tail_allocatable_token_budget") > 0,
            resumes_full_anew=_uses(resumes, "_allocatable_token_budgets") > 1,
            joins_at_once=True,
            leaves_a_token=False,
        )
