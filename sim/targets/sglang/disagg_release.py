"""A release's decode node: its two queues, its request table and its way back from retraction.

``DecodePreallocQueue`` and ``DecodeTransferQueue`` are built by their own constructors, and every decision about room,
allocations, copies and frees is theirs. Around them are test doubles: the sender, the scheduler that owns the queues,
and the batch of arrivals.
"""

from __future__ import annotations

import dis
import importlib
import inspect
import logging
import sys
from collections.abc import Callable
from types import CodeType, SimpleNamespace
from typing import Any

import torch

from ....models.config import Config
from ..base import TargetError
from ..disagg import MAX_REQUESTS, Rules
from .engine_release import EngineRelease, NoSpeculation
from .leaves import Leaf, install

__all__ = ["ANNOUNCED", "ARRIVED", "FAILED", "DecodeRelease", "Started", "scheduler"]

ARRIVED = "Success"
FAILED = "Failed"
_READY = "WaitingForInput"
_MOVING = "Transferring"


class OneRank:
    """Test double of ``torch.distributed``: a single rank needs no agreement."""

    ReduceOp = torch.distributed.ReduceOp

    @staticmethod
    def all_reduce(*_what: object, **_how: object) -> None:
        """Nothing to reduce."""

    @staticmethod
    def get_world_size(_group: object = None) -> int:
        """One."""
        return 1


class _EveryPrefill:
    """Stands for the table of prefill servers: each is known, and has one data-parallel rank."""

    @staticmethod
    def get(_address: str) -> SimpleNamespace:
        return SimpleNamespace(dp_size=1, follow_bootstrap_room=False)


class Manager:
    """Stands for the KV manager: the queues ask it whom to ask and which pools besides the full one are sent."""

    def __init__(self, state_types: list[object]) -> None:
        self.prefill_info_table = _EveryPrefill()
        self.kv_args = SimpleNamespace(state_types=state_types)
        self.enable_deferred_decode_kv_release = False


class Receiver:
    """Test double of the decode node's end of one transfer: records the pages that the sender is told.

    Attributes:
        full: pages of the full pool that were sent.
        swa: pages of the SWA pool that were sent.
        cached: tokens that need not be sent.
    """

    require_staging = False
    supports_host_destination = False
    abort_notified = False
    conclude_state = None

    def __init__(self, mgr: Manager, bootstrap_addr: str, bootstrap_room: int) -> None:
        self.kv_mgr = mgr
        self._state = _READY
        self.full: tuple[int, ...] = ()
        self.swa: tuple[int, ...] = ()
        self.cached = 0

    def init(self, _rank: int) -> None:
        """The handshake is over at once."""

    def poll(self) -> Any:
        """How far the transfer is."""
        base: Any = sys.modules["sglang.srt.disaggregation.base"]
        return getattr(base.KVPoll, self._state)

    def become(self, state: str) -> None:
        """The transfer has ended."""
        self._state = state

    def send_metadata(self, pages: Any, _buffer: int, state: list[Any], *, decode_prefix_len: int) -> None:
        """Tell the sender where to write."""
        (window,) = state
        self.full, self.swa, self.cached = tuple(pages.tolist()), tuple(window.tolist()), decode_prefix_len
        self._state = _MOVING

    def failure_exception(self) -> None:
        """Why it failed."""
        raise RuntimeError("aborted by the tape")

    def clear(self) -> None:
        """Nothing is kept."""


class _Relay:
    """Stands for the map from which the next forward would take its input tokens."""

    def __init__(self, inserted: Callable[[Any], None]) -> None:
        self.inserted = inserted

    def stash(self, _rows: object, _tokens: object) -> None:
        """No forward takes them."""


def _prebuilt_class(mixin: Any) -> type:
    """Stands for ``ScheduleBatch`` where waiting requests become a batch.

    Args:
        mixin: the release's part of it for such batches, ``ScheduleBatchDisaggregationDecodeMixin``.
    """

    class Prebuilt(mixin):  # type: ignore[misc]
        """A batch of requests whose prompt is there already."""

        spec_algorithm = NoSpeculation()
        device = "cpu"
        enable_overlap = False
        req_pool_indices = None

        def __init__(self, requests: list[Any], tree: Any) -> None:
            self.reqs = requests
            self.tree_cache = tree

        @classmethod
        def init_new(cls, requests: list[Any], _rows: Any, _allocator: Any, tree: Any, *_more: object) -> Prebuilt:
            """As the release makes one."""
            return cls(requests, tree)

        def prepare_for_prebuilt(self) -> None:
            """Build no tensors; no computation needs them."""
            for request in self.reqs:
                request.is_retracted = False

        def process_prebuilt(self, *more: Any) -> None:
            """Insert the computed tokens, as the release does, and report each request; `more` ends with the relay."""
            requests = self.reqs
            for request in requests:
                self.reqs = [request]
                super().process_prebuilt(*more)
                more[-1].inserted(request)
            self.reqs = requests

    return Prebuilt


def _nothing(*_what: object, **_how: object) -> None:
    pass


class _Running:
    """Stands for the running batch."""

    def __init__(self) -> None:
        self.reqs: list[Any] = []

    def batch_size(self) -> int:
        return len(self.reqs)


class _Prebuilt:
    """Stands for ``ForwardMode.PREBUILT``."""

    @staticmethod
    def is_prebuilt() -> bool:
        return True


class Started:
    """Stands for a batch of started requests as the scheduler's last batch."""

    forward_mode = _Prebuilt

    def __init__(self, requests: list[Any]) -> None:
        self.reqs = requests


def scheduler(inserted: Callable[[Any], None], **facts: object) -> SimpleNamespace:
    """Stands for the scheduler: the queues ask it who runs and waits, and how the server is set up.

    Args:
        inserted: called for each request that was inserted into the tree when it was started.
        facts: its facts about this cache.
    """
    streamer = SimpleNamespace(stream_output=_nothing)
    return SimpleNamespace(
        running_batch=_Running(),
        waiting_queue=[],
        last_batch=None,  # a prebuilt batch joins the running one before the queues are asked again (PR 19568)
        output_streamer=streamer,
        stream_output=streamer.stream_output,
        enable_priority_scheduling=False,
        enable_hisparse=False,
        enable_lora=False,
        enable_decode_hicache=False,
        enable_overlap=False,
        enable_metrics=False,
        metrics_reporter=SimpleNamespace(enable_metrics=False),
        spec_algorithm=NoSpeculation(),
        grammar_manager=SimpleNamespace(has_waiting_grammars=lambda: False),
        batch_result_processor=SimpleNamespace(_maybe_update_reasoning_tokens=_nothing),
        ps=SimpleNamespace(pp_size=1, dp_rank=0, gpu_id=0),
        kv_checksum_computer=None,
        random_seed=0,
        model_config=None,
        future_map=_Relay(inserted),
        disagg_decode_prealloc_queue=None,
        **facts,
    )


_DECODE = "sglang.srt.disaggregation.decode"
_SINCE = "0.5.12 and later"


def leaves(mixin: Any) -> tuple[Leaf, ...]:
    """The replacements for a decode node.

    Args:
        mixin: the release's ``ScheduleBatchDisaggregationDecodeMixin``.
    """
    return (
        Leaf(_DECODE, "get_kv_class", lambda *_which: Receiver, _SINCE, "the network; the tape says when KV arrives"),
        Leaf(_DECODE, "is_mla_backend", lambda _pool: False, _SINCE, "the pool has keys and values"),
        Leaf(_DECODE, "ScheduleBatch", _prebuilt_class(mixin), _SINCE, "no tensors for a forward that skips prefill"),
        Leaf(_DECODE, "set_time_batch", _nothing, _SINCE, "no times are recorded"),
        Leaf("sglang.srt.disaggregation.utils", "dist", OneRank, _SINCE, "a single rank needs no agreement"),
    )


ANNOUNCED = (
    *leaves(object),
    Leaf(_DECODE, "DecodePreallocQueue._init_kv_manager", Manager, _SINCE, "the network; records what is sent"),
    Leaf("sglang.srt.managers.scheduler", "Scheduler", scheduler, _SINCE,
         "the decode queues read running and waiting requests and settings from it"),
)  # fmt: skip
"""The same, and what is handed to the queues instead of the release's own; for those who ask."""


_DISAGG = "sglang.srt.disaggregation"


def _inner(method: Any, name: str) -> CodeType:
    """The code of a function that a method defines."""
    return next(it for it in method.__code__.co_consts if isinstance(it, CodeType) and it.co_name == name)


def _uses(method: Any, name: str) -> int:
    """How often a method's code names something. Its text is not asked: a mutant's is not that of the file."""
    return sum(instruction.argval == name for instruction in dis.get_instructions(method))


def _queue_class(base: Any, manager: Manager) -> Any:
    """The release's ``DecodePreallocQueue`` without a network, which tells when it has looked into the tree."""

    class Queue(base):  # type: ignore[misc]
        def _init_kv_manager(self) -> Manager:
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
        self._queue_class = _queue_class(self.decode.DecodePreallocQueue, Manager([self._state_type.SWA]))
        logging.getLogger(self.decode.__name__).disabled = True  # that a request is refused or aborted is no news here
        mixin: Any = importlib.import_module(f"{_DISAGG}.decode_schedule_batch_mixin")
        install(leaves(mixin.ScheduleBatchDisaggregationDecodeMixin))

    def rows(self, config: Config) -> Any:
        """A new ``DecodeReqToTokenPool``: room for running requests and for as many that wait for their KV."""
        return self.decode.DecodeReqToTokenPool(
            size=MAX_REQUESTS,
            max_context_len=self.engine.row_width(config),
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
