"""One decode node of a release: its two queues over one cache, and the scheduler's calls on them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch

from ....models.config import Config
from ..disagg import MAX_REQUESTS, OverAdmission
from .disagg_release import ARRIVED, FAILED, DecodeRelease, Started, scheduler
from .settings import SETTINGS

__all__ = ["DecodeNode"]


@contextmanager
def _admitting() -> Iterator[None]:
    """Tell a budget that promised too much from other failures: the release asserts that an allocation succeeds."""
    try:
        yield
    except AssertionError as error:
        if not str(error).startswith("KV cache is full!"):
            raise
        raise OverAdmission(str(error)) from error


class DecodeNode:
    """One decode node: the release's queues over one cache.

    Args:
        release: the release's code.
        config: the shape of the cache.
        rows: the release's request table.
        tree: what keeps KV.
        allocator: the release's allocator.
        inserted: called for each request that was inserted into the tree when it was started.

    Attributes:
        prealloc: its ``DecodePreallocQueue``.
        transfer: its ``DecodeTransferQueue``.
        scheduler: the test double of its scheduler.
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
        self.scheduler = scheduler(
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
        entry.kv_receiver.become(ARRIVED)
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

    def budgets_beside(self, started: list[Any]) -> tuple[int, int]:
        """The budgets of a round of preallocation, were these running requests still a prebuilt batch of their own."""
        scheduler = self.scheduler
        together = scheduler.running_batch.reqs
        scheduler.running_batch.reqs = [one for one in together if one not in started]
        scheduler.last_batch = Started(started)
        try:
            return self.budgets(resuming=False)
        finally:
            scheduler.running_batch.reqs, scheduler.last_batch = together, None

    @staticmethod
    def saved(request: Any) -> tuple[bool, ...] | None:
        """For each token of a retracted request's copy, whether it says that it has an SWA row; None if it does not."""
        record = vars(request).get("kv")
        backup = getattr(record, "retraction_backup", None) or vars(request).get("retraction_backup")
        copy = getattr(backup, "cpu_tensors", None) or vars(request).get("kv_cache_cpu")
        mask = copy.get("swa_mask") if isinstance(copy, dict) else None
        return tuple(map(bool, mask.tolist())) if isinstance(mask, torch.Tensor) else None

    def abort(self, request: Any) -> bool:
        """Take a request out of whatever queue holds it, as ``abort_request`` does.

        Returns:
            False if it ran; then it is still to be released.
        """
        if any(entry.req is request for entry in self.prealloc.queue):
            self._release.decode.prepare_abort(request, "aborted by the tape")
            self.prealloc.pop_preallocated([request.rid])
        elif any(entry.req is request for entry in self.transfer.queue):
            self._sent(request).kv_receiver.become(FAILED)
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
