"""A release's code for two batches in flight: its batches, its processing of results, and what stands around them."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ....models.config import END_TOKEN
from ..base import TargetError
from .engine_release import NoSpeculation
from .scheduler_release import SchedulerRelease
from .settings import SETTINGS

__all__ = ["OverlapRelease"]

_VOCABULARY = 1 << 20
"""Tokens of the model, more than any tape has."""


class _Listener:
    """Stands for those who only hear of results: metrics, the output stream. Counters that are kept there count
    nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_what: object, **_facts: object) -> _Listener:
        return self

    def __bool__(self) -> bool:
        return False

    def __contains__(self, _item: object) -> bool:
        return False

    def __add__(self, _count: object) -> _Listener:
        return self

    __radd__ = __mod__ = __add__


class _Model:
    """Test double of ``ModelConfig``: a plain decoder that does not think."""

    is_encoder_decoder = is_matryoshka = is_multimodal = False
    vocab_size = _VOCABULARY
    hidden_size = 1
    think_end_id = think_end_ids = self_opened_think_start_ids = None

    def __getattr__(self, name: str) -> Any:
        raise TargetError(f"the release asks for {name!r} of its model; the adapter needs an update")


class _NoLogits:
    """Stands for ``LogitsProcessorOutput``, of which only sampled tokens are there."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


_INSERTING = {"release_kv_cache", "checkpoint_kv_cache", "maybe_cache_unfinished_req"}
"""Functions of ``mem_cache.common`` with which the processing of results inserts requests."""

_LISTENERS = (
    *("metrics_reporter", "metrics_collector", "output_streamer", "logprob_result_processor", "beam_coordinator"),
    *("num_generated_tokens", "forward_ct_decode", "stream_output", "log_decode_stats", "log_prefill_stats"),
    *("update_spec_metrics", "report_decode_stats", "report_prefill_stats", "set_time_batch"),
)
"""Names of a scheduler, or of its part that processes results, that only hear of them."""


def _processor(owner: Any) -> Any:
    """A subclass of the release's class that processes results, made of facts alone."""

    class Processor(owner):  # type: ignore[misc]
        """See `OverlapRelease.processor`."""

        def __init__(self, facts: dict[str, Any]) -> None:
            for name, value in facts.items():
                object.__setattr__(self, name, value)

        def __getattr__(self, name: str) -> Any:
            raise TargetError(f"the release asks for {name!r} of its scheduler; the adapter needs an update")

    return Processor


class OverlapRelease:
    """The modules of the loaded release that two batches in flight need.

    Attributes:
        schedule: the release's code for scheduling.
        skips_finishing: whether a decode batch leaves out who gets the last token from the results in flight (0.5.22).
        filters_always: whether who has ended leaves the running batch at each turn (0.5.23), not only in a decode turn.
    """

    def __init__(self, schedule: SchedulerRelease) -> None:
        self.schedule = schedule
        module: Any = importlib.import_module("sglang.srt.managers.schedule_batch")
        self._batch_class, self._abort = module.ScheduleBatch, module.FINISH_ABORT
        self._result_class: Any = importlib.import_module("sglang.srt.managers.utils").GenerationBatchResult
        managers = Path(inspect.getfile(module)).parent
        source = (managers / "scheduler.py").read_text(encoding="utf-8")
        self.skips_finishing = "_reqs_finishing_inflight(" in source
        self.filters_always = (
            re.search(r"running_batch\.filter_batch\(\)\n +if running_batch\.batch_size\(\) <", source) is not None
        )
        parameters = inspect.signature(self._batch_class.filter_batch).parameters
        self._excluded = next(name for name in parameters if name.endswith("_to_exclude"))
        if (managers / "scheduler_components" / "batch_result_processor.py").is_file():
            results: Any = importlib.import_module("sglang.srt.managers.scheduler_components.batch_result_processor")
            owner = results.SchedulerBatchResultProcessor
        else:
            results = importlib.import_module("sglang.srt.managers.scheduler_output_processor_mixin")
            owner = results.SchedulerOutputProcessorMixin
        self._processor_class = _processor(owner)
        self._model = _Model()
        self._inserted: Callable[[Any], None] = lambda entry: None
        for name in _INSERTING & vars(results).keys():
            setattr(results, name, self._announced(getattr(results, name)))

    def _announced(self, function: Callable[..., None]) -> Callable[..., None]:
        """A function that inserts a request, and says so: the view of the tree in Rust follows each insertion."""

        def announced(entry: Any, *rest: object, **options: object) -> None:
            function(entry, *rest, **options)
            self._inserted(entry)

        return announced

    def processor(self, tree: Any, inserted: Callable[[Any], None]) -> Any:
        """What processes the results of batches over a tree, as the overlap scheduler builds it.

        Args:
            tree: the tree.
            inserted: is called with each request that was inserted.
        """
        self._inserted = inserted
        facts: dict[str, Any] = dict.fromkeys(_LISTENERS, _Listener())
        facts |= {
            "is_generation": True,
            "enable_overlap": True,
            **dict.fromkeys(("enable_overlap_mlx", "enable_hisparse", "enable_metrics", "enable_fpm"), False),
            "model_config": self._model,
            "tree_cache": tree,
            "req_to_token_pool": tree.req_to_token_pool,
            "token_to_kv_pool_allocator": tree.token_to_kv_pool_allocator,
            "server_args": SETTINGS,
        }
        facts |= dict.fromkeys(("hisparse_coordinator", "decode_offload_manager", "draft_worker", "model_worker"))
        return self._processor_class(facts)

    def empty(self) -> Any:
        """A running batch of nobody."""
        return self._batch_class(reqs=[])

    def prefill(self, tree: Any, entries: list[Any], chunked: Any) -> Any:
        """A new batch that computes prompts, with its slots: ``init_new`` and ``prepare_for_extend``."""
        batch = self._batch_class.init_new(
            entries,
            tree.req_to_token_pool,
            tree.token_to_kv_pool_allocator,
            tree,
            self._model,
            True,
            NoSpeculation(),
            chunked_req=chunked,
        )
        batch.prepare_for_extend()
        batch.decoding_reqs = None
        return batch

    def exclude(self, batch: Any, entries: list[Any]) -> None:
        """These requests leave a batch, and those that have ended."""
        batch.filter_batch(**{self._excluded: entries})

    def launched(self, batch: Any, tokens: list[int]) -> None:
        """A batch's forward is in flight; it will sample these tokens (``run_batch``)."""
        if hasattr(self._batch_class, "output_ids"):  # up to 0.5.13 the next step takes them from here
            batch.output_ids = torch.tensor(tokens, dtype=torch.int64)

    def result(self, tokens: list[int]) -> Any:
        """The result of a batch that sampled these tokens."""
        return self._result_class(
            logits_output=_NoLogits(),
            next_token_ids=torch.tensor(tokens, dtype=torch.int64),
            can_run_cuda_graph=False,
        )

    def accept(self, entry: Any, granted: int) -> None:
        """A request may have so many output tokens, and ends with `END_TOKEN`."""
        params = entry.sampling_params
        params.max_new_tokens, params.ignore_eos, params.stop_token_ids = granted, False, {END_TOKEN}
        entry.vocab_size = _VOCABULARY

    @staticmethod
    def in_chunks(entry: Any) -> None:
        """A batch is formed while a request is between two chunks."""
        name = "inflight_middle_chunks" if "inflight_middle_chunks" in vars(entry) else "is_chunked"
        setattr(entry, name, getattr(entry, name) + 1)

    def to_abort(self, entry: Any) -> None:
        """A request that runs is to end with its next result."""
        entry.to_finish = self._abort()

    def aborted(self, entry: Any) -> None:
        """A request between two chunks has ended (``prepare_abort``)."""
        entry.finished_reason = self._abort()
        entry.to_finish = None
