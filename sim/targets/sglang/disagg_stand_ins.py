"""Test doubles around a release's decode queues: the sender, the scheduler that owns them, the batch of arrivals.

The queues are the release's own, and so is every decision about room, allocations, copies and frees.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from .leaves import Leaf

__all__ = ["ANNOUNCED", "ARRIVED", "FAILED", "Manager", "Started", "leaves", "scheduler"]

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


class _NoSpeculation:
    """Stands for ``SpeculativeAlgorithm``."""

    @staticmethod
    def is_none() -> bool:
        return True

    @staticmethod
    def is_eagle() -> bool:
        return False

    @staticmethod
    def build_disagg_draft_input(*_what: object) -> None:
        return None


def _prebuilt_class(mixin: Any) -> type:
    """Stands for ``ScheduleBatch`` where waiting requests become a batch.

    Args:
        mixin: the release's part of it for such batches, ``ScheduleBatchDisaggregationDecodeMixin``.
    """

    class Prebuilt(mixin):  # type: ignore[misc]
        """A batch of requests whose prompt is there already."""

        spec_algorithm = _NoSpeculation()
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
        spec_algorithm=_NoSpeculation(),
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
        Leaf(_DECODE, "set_time_batch", _nothing, _SINCE, "no time is taken"),
        Leaf("sglang.srt.disaggregation.utils", "dist", OneRank, _SINCE, "one rank has nobody to agree with"),
    )


ANNOUNCED = (
    *leaves(object),
    Leaf(_DECODE, "DecodePreallocQueue._init_kv_manager", Manager, _SINCE, "the network; says what is sent"),
    Leaf("sglang.srt.managers.scheduler", "Scheduler", scheduler, _SINCE,
         "the decode queues ask it who runs, who waits, and for settings"),
)  # fmt: skip
"""The same, and what is handed to the queues instead of the release's own; for those who ask."""
