"""A release's decode node: its two queues, its request table and its way back from retraction.

``DecodePreallocQueue`` and ``DecodeTransferQueue`` are built by their own constructors; only the network
around them is not there (`disagg_stand_ins`).
"""

from __future__ import annotations

import importlib
import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, SimpleNamespace
from typing import Any

import torch

from staleloc.models.config import Config
from staleloc.sim.targets.base import TargetError
from staleloc.sim.targets.disagg import MAX_REQUESTS, OverAdmission, Rules
from staleloc.sim.targets.sglang import disagg_stand_ins as stand_ins
from staleloc.sim.targets.sglang.engine_release import EngineRelease
from staleloc.sim.targets.sglang.engine_settings import SETTINGS
from staleloc.sim.targets.sglang.leaves import install

__all__ = ["DecodeNode", "DecodeRelease"]

_DISAGG = "sglang.srt.disaggregation"


def _inner(method: Any, name: str) -> CodeType:
    """The code of a function that a method defines."""
    return next(it for it in method.__code__.co_consts if isinstance(it, CodeType) and it.co_name == name)


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


@contextmanager
def _admitting() -> Iterator[None]:
    """Tell a budget that promised too much from other failures: the release asserts that an allocation succeeds."""
    try:
        yield
    except AssertionError as error:
        if not str(error).startswith("KV cache is full!"):
            raise
        raise OverAdmission(str(error)) from error


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
        """What keeps KV on a new decode node: a prefix tree, or what stands in for one where nothing is kept."""
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
            asks_whole=inspect.getsource(queue.pop_preallocated).count("self._required_alloc_tokens(") > 1,
            records_tail=not {"swa_evicted_seqlen", "set_evicted_seqlen"}.isdisjoint(allocates),
            adds_evictable=True,
        )


class DecodeNode:
    """One decode node: the release's queues over one cache.

    Args:
        release: the release's code.
        config: the shape of the cache.
        rows: the release's request table.
        tree: what keeps KV.
        allocator: the release's allocator.
        inserted: told of each request that was inserted into the tree when it was started.

    Attributes:
        prealloc: its ``DecodePreallocQueue``.
        transfer: its ``DecodeTransferQueue``.
        scheduler: what stands for its scheduler.
    """

    def __init__(
        self,
        release: DecodeRelease,
        config: Config,
        rows: Any,
        tree: Any,
        allocator: Any,
        inserted: Callable[[Any], None],
    ) -> None:
        self._release, self._config = release, config
        self._rows, self._tree, self._tokens = rows, tree, allocator
        worker = SimpleNamespace(
            is_hybrid_swa=True, model_runner=SimpleNamespace(swa_max_total_num_tokens=config.swa_size)
        )
        self.scheduler = stand_ins.scheduler(
            inserted,
            server_args=SETTINGS,
            sliding_window_size=max(1, config.window - 1),
            tp_worker=worker,
            req_to_token_pool=rows,
            token_to_kv_pool_allocator=allocator,
            tree_cache=tree,
            max_running_requests=MAX_REQUESTS,
        )
        self._buffers, indices = release.metadata()
        self.prealloc, self.transfer = release.queues(
            {
                "req_to_token_pool": rows,
                "token_to_kv_pool_allocator": allocator,
                "draft_token_to_kv_pool": None,
                "req_to_metadata_buffer_idx_allocator": indices,
                "metadata_buffers": self._buffers,
                "scheduler": self.scheduler,
                "tree_cache": tree,
                "gloo_group": None,
                "tp_rank": 0,
                "tp_size": 1,
                "dp_size": 1,
                "gpu_id": 0,
                "bootstrap_port": 0,
                "max_total_num_tokens": config.full_size,
                "pp_rank": 0,
                "num_reserved_decode_tokens": config.reserved_decode,
                "transfer_backend": None,
            }
        )
        self.scheduler.disagg_decode_prealloc_queue = self.prealloc

    def request(self, number: int, tokens: list[int], most: int) -> Any:
        """A new request that a prefill server computes."""
        request = self._release.engine.request(number, tokens)
        request.sampling_params.max_new_tokens = most
        request.bootstrap_host, request.bootstrap_port = "prefill", 0
        request.bootstrap_room = number + 1  # 0 means that nothing came
        request.disagg_prefill_dp_rank = None
        return request

    def add(self, request: Any) -> bool:
        """Queue a new request. False if the release rejects it."""
        before = len(self.prealloc.queue)
        self.prealloc.add(request)
        return len(self.prealloc.queue) > before

    def preallocate(self) -> tuple[list[Any], list[Any]]:
        """One round of ``pop_preallocated``: those that got slots, and those that were given up."""
        with _admitting():
            admitted, failed = self.prealloc.pop_preallocated()
        self.transfer.extend(admitted)
        return admitted, failed

    def arrived(self, request: Any, token: int) -> None:
        """The KV of a request is there."""
        entry = self._sent(request)
        self._buffers.output_ids[entry.metadata_buffer_index, 0] = token
        self._buffers.bootstrap_room[entry.metadata_buffer_index, 0] = request.bootstrap_room
        entry.kv_receiver.become(stand_ins.ARRIVED)
        self.scheduler.waiting_queue.extend(self.transfer.pop_transferred([request.rid]))

    def _sent(self, request: Any) -> Any:
        return next(entry for entry in self.transfer.queue if entry.req is request)

    def start(self) -> None:
        """Everything that waits joins the running batch."""
        mixin = self._release.decode.SchedulerDisaggregationDecodeMixin
        # Up to 0.5.22 one method makes the batch and processes it; later it is checked in between.
        make = getattr(mixin, "_get_new_prebuilt_batch", None)
        split = make is not None
        make = make or mixin.get_new_prebuilt_batch
        batch = make(self.scheduler, *[self.scheduler.running_batch][: len(inspect.signature(make).parameters) - 1])
        if batch is None:
            return
        if split:
            batch.process_prebuilt(self.scheduler.future_map)
        self.scheduler.running_batch.reqs.extend(batch.reqs)

    def retract(self, request: Any) -> bool:
        """Copy a running request to the CPU, release it, queue it. False if the queue turns it away."""
        self.scheduler.running_batch.reqs.remove(request)
        release = getattr(self._release.schedule, "release_req", None)
        if release is None:  # a method of the batch up to 0.5.13
            self._release.engine.batch_class(self._tree, [request]).release_req(0, 0, SETTINGS)
        else:
            known = {
                "req": request,
                "remaing_req_count": 0,
                "server_args": SETTINGS,
                "req_to_token_pool": self._rows,
                "token_to_kv_pool_allocator": self._tokens,
                "tree_cache": self._tree,
                "hisparse_coordinator": None,
            }
            release(**{name: known[name] for name in inspect.signature(release).parameters if name in known})
        self.prealloc.add(request, is_retracted=True)
        return request in self.prealloc.retracted_queue

    def resume(self) -> list[Any]:
        """One round of ``resume_retracted_reqs``."""
        with _admitting():
            resumed: list[Any] = self.prealloc.resume_retracted_reqs()
        self.scheduler.waiting_queue.extend(resumed)
        return resumed

    def leave(self, request: Any) -> None:
        """A running request runs no longer."""
        self.scheduler.running_batch.reqs.remove(request)

    def budgets(self, resuming: bool) -> tuple[int, int]:
        """Full and SWA tokens that either loop starts with."""
        queue, running = self.prealloc, self.scheduler.running_batch.reqs
        held: dict[str, Any] = {"count_retracted": not resuming}
        if not resuming:
            held["retractable_tokens"] = sum(len(one.origin_input_ids) + len(one.output_ids) for one in running)
        if not queue._uses_swa_tail_prealloc():
            budget = int(queue._allocatable_token_budgets(**held))
            return budget, budget
        if not resuming:
            held["retractable_swa_tokens"] = sum(queue._swa_retractable_len(one) for one in running)
        full, swa = queue._swa_aware_allocatable_token_budgets(**held)
        return int(full), int(swa)

    @staticmethod
    def saved(request: Any) -> tuple[bool, ...]:
        """For each token of a retracted request's copy, whether it has an SWA row."""
        record = vars(request).get("kv")
        backup = getattr(record, "retraction_backup", None) or vars(request).get("retraction_backup")
        copy = backup.cpu_tensors if backup is not None else request.kv_cache_cpu
        mask: list[bool] = copy["swa_mask"].tolist()
        return tuple(mask) if copy["swa"] is not None else (False,) * len(mask)

    def abort(self, request: Any) -> bool:
        """Take a request out of whatever queue holds it, as ``abort_request`` does; False if it ran and is to be released."""
        if any(entry.req is request for entry in self.prealloc.queue):
            self._release.decode.prepare_abort(request, "aborted by the tape")
            self.prealloc.pop_preallocated([request.rid])
        elif any(entry.req is request for entry in self.transfer.queue):
            self._sent(request).kv_receiver.become(stand_ins.FAILED)
            self.transfer.pop_transferred([request.rid])
        elif request in self.scheduler.waiting_queue:
            self.scheduler.waiting_queue.remove(request)
            request.finished_reason = self._release.schedule.FINISH_ABORT()
            self._release.engine.release(self._tree, request, insert=True)
        elif request in self.prealloc.retracted_queue:
            self.prealloc.retracted_queue.remove(request)
        else:
            self.leave(request)
            return False
        return True
