"""What stands around a release's decode queues here: the sender, the scheduler that owns them, the batch of arrivals.

The queues are the release's own, and so is every decision: what fits, what is allocated, copied, freed.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

__all__ = ["ARRIVED", "FAILED", "Manager", "OneRank", "prebuilt_batch", "receiver_class", "scheduler"]

ARRIVED = "Success"
FAILED = "Failed"
_READY = "WaitingForInput"
_MOVING = "Transferring"


class OneRank:
    """Stands for ``torch.distributed``: one rank has nobody to agree with."""

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


def receiver_class(polls: Any) -> type:
    """The class of the receivers, the decode node's end of one request's transfer.

    Args:
        polls: the release's ``KVPoll``.
    """

    class Receiver:
        """Remembers what the sender is told; the tape says when the sender is done.

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
            return getattr(polls, self._state)

        def become(self, state: str) -> None:
            """The transfer came to an end."""
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

    return Receiver


def prebuilt_batch(checkpoint: Callable[[Any, Any], None]) -> type:
    """Stands for ``ScheduleBatch`` where waiting requests become a batch: it runs no forward.

    Args:
        checkpoint: insert a request into a tree, as ``process_prebuilt`` does.
    """

    class Prebuilt:
        """A batch of requests whose prompt is there already."""

        def __init__(self, requests: list[Any], tree: Any) -> None:
            self.reqs = requests
            self._tree = tree

        @classmethod
        def init_new(cls, requests: list[Any], _rows: Any, _allocator: Any, tree: Any, *_more: object) -> Prebuilt:
            """As the release makes one."""
            return cls(requests, tree)

        def prepare_for_prebuilt(self) -> None:
            """Build no tensors; nobody computes with them."""
            for request in self.reqs:
                request.is_retracted = False

        def process_prebuilt(self, *_more: object) -> None:
            """Insert what is there."""
            for request in self.reqs:
                checkpoint(self._tree, request)

    return Prebuilt


def _nothing(*_what: object, **_how: object) -> None:
    pass


class _Running:
    """Stands for the running batch."""

    def __init__(self) -> None:
        self.reqs: list[Any] = []

    def batch_size(self) -> int:
        return len(self.reqs)


def scheduler(**facts: object) -> SimpleNamespace:
    """Stands for the scheduler: the queues ask it who runs and waits, and how the server is set up.

    Args:
        facts: what it knows of this cache.
    """
    streamer = SimpleNamespace(stream_output=_nothing)
    return SimpleNamespace(
        running_batch=_Running(),
        waiting_queue=[],
        last_batch=None,  # a prebuilt batch joins the running one before the queues are asked again
        output_streamer=streamer,
        stream_output=streamer.stream_output,
        enable_priority_scheduling=False,
        enable_hisparse=False,
        enable_lora=False,
        enable_decode_hicache=False,
        enable_overlap=False,
        enable_metrics=False,
        metrics_reporter=SimpleNamespace(enable_metrics=False),
        spec_algorithm=SimpleNamespace(is_none=lambda: True),
        grammar_manager=SimpleNamespace(has_waiting_grammars=lambda: False),
        batch_result_processor=SimpleNamespace(_maybe_update_reasoning_tokens=_nothing),
        ps=SimpleNamespace(pp_size=1, dp_rank=0, gpu_id=0),
        kv_checksum_computer=None,
        random_seed=0,
        model_config=None,
        future_map=None,
        disagg_decode_prealloc_queue=None,
        **facts,
    )
