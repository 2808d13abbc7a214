"""A release's code for scheduling, and how this release wants to be called."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ....models.config import Config
from .engine_release import EngineRelease
from .settings import SETTINGS

__all__ = ["SchedulerRelease"]

_CACHE = "sglang.srt.mem_cache"
_MARGIN = 5
"""Tokens by which the input of a request must stay below its length at most (``get_worker_info``)."""


_STORES_WHAT_IS_NEW = (
    "if self._chunked_req_scheduled_last_iter:",
    "> len(self.chunked_req.prefix_indices):",
    "> self.chunked_req.prefix_len:",
)
"""How a scheduler asks, from 0.5.12 on, whether there is a chunk to store."""


class _Ratio:
    """The share of their new tokens that running requests are expected to need (``new_token_ratio``).

    Args:
        start: the share on an idle engine. It shrinks with each decode step, to a seventh of it after 600 steps.
    """

    def __init__(self, start: float) -> None:
        self._start = self.current = start

    def decay_step(self) -> None:
        """A decode step without a retraction."""
        least = self._start * 0.14
        self.current = max(least, self.current - (self._start - least) / 600)

    def reset(self) -> None:
        """The engine is idle."""
        self.current = self._start


def _batch_class(base: Any) -> Any:
    """A subclass of the adapter's batch for several prompts, with the release's own window eviction."""

    class Batch(base):  # type: ignore[misc]
        """Requests that run one step together under the overlap scheduler."""

        def __init__(self, tree: Any, requests: list[Any], spans: Sequence[tuple[int, int]] | None = None) -> None:
            """A decode step, or with `spans` the prefill of these positions, one span a request."""
            super().__init__(tree, requests, None if spans is None else (0, 0))
            self.enable_overlap = True
            if spans is not None:
                self.prefix_lens = [start for start, _ in spans]
                self.extend_lens = [stop - start for start, stop in spans]
                self.extend_num_tokens = sum(self.extend_lens)
                self.seq_lens = self.seq_lens_cpu = torch.tensor([stop for _, stop in spans], dtype=torch.int64)

        def maybe_evict_swa(self) -> None:
            """The release's own, at the place where its allocation asks for it."""
            self.evict_windows()

        def filter_batch(self, *_: Any, keep_indices: list[int]) -> None:
            """The requests that stay after a retraction."""
            self.reqs: list[Any] = [self.reqs[index] for index in keep_indices]

        def batch_size(self) -> int:
            """How many requests there are."""
            return len(self.reqs)

    return Batch


class SchedulerRelease:
    """The modules of the loaded release that scheduling needs.

    Attributes:
        engine: the release's code for requests.
        aborts_chunked: whether a request is aborted between two chunks (from 0.5.14).
        stores_again: whether each round stores the request between two chunks, also if it computed none of it (0.5.11).
    """

    def __init__(self, engine: EngineRelease) -> None:
        self.engine = engine
        policy: Any = importlib.import_module("sglang.srt.managers.schedule_policy")
        self._adder_class, self._results = policy.PrefillAdder, policy.AddReqResult
        with contextlib.suppress(ModuleNotFoundError):  # 0.5.21 and later import it when they first admit
            importlib.import_module(f"{_CACHE}.prefill_budget")
        self.batch = _batch_class(engine.batch_class)
        logging.getLogger("sglang.srt.managers.schedule_batch").disabled = True  # a request that is given up is no news
        source = (Path(inspect.getfile(policy)).parent / "scheduler.py").read_text(encoding="utf-8")
        self.aborts_chunked = "_pending_chunked_abort_req" in source
        self._asks_first = "adder.budget_state() ==" in source
        self.stores_again = not any(text in source for text in _STORES_WHAT_IS_NEW)

    @staticmethod
    def ratio(config: Config) -> _Ratio:
        """The share of new tokens to start with."""
        return _Ratio(config.new_token_ratio / 100)

    def tree(self, config: Config, rows: Any, allocator: Any) -> tuple[Any, Any]:
        """A new prefix tree and its parameters, or the release's cache for servers that keep none."""
        window = max(1, config.window - 1)
        if config.prefix_cache:
            return self.engine.tree(config, rows, allocator, window)
        try:
            chunk: Any = importlib.import_module(f"{_CACHE}.chunk_cache")
        except ModuleNotFoundError:  # from 0.5.22 on it is a tree that is switched off
            return self.engine.tree(config, rows, allocator, window, disable=True)
        params = self.engine.tree_params(config, rows, allocator, window, disable=True)
        params.chunked_prefill_size = config.chunk or -1
        return chunk.SWAChunkCache(params), params

    def accepted(self, config: Config, allocator: Any, tokens: int, most: int) -> int | None:
        """The new tokens that the server grants a prompt of this length; None if it refuses it.

        A hybrid pool has the capacity of its full pool (``get_worker_info``, ``validate_input_length``,
        ``init_req_max_new_tokens``).
        """
        longest = config.full_size - 1
        if tokens >= longest - _MARGIN:
            return None
        most = max(0, min(most, longest - tokens - 1))
        if hasattr(allocator, "max_new_tokens_for_memory"):
            granted: int | None = allocator.max_new_tokens_for_memory(
                tokens,
                most,
                token_capacity=config.full_size,
                sliding_window_size=max(1, config.window - 1),
                chunk_size=config.chunk or None,
            )
            return granted
        paged = -(-tokens // config.page_size) * config.page_size
        return max(0, min(most, config.full_size - paged - config.page_size - 1))

    def adder(self, config: Config, tree: Any, running: Any, ratio: float, waiting: int) -> Any:
        """The release's ``PrefillAdder`` for one round."""
        arguments: dict[str, Any] = {}
        if "waiting_queue_len" in inspect.signature(self._adder_class.__init__).parameters:
            arguments["waiting_queue_len"] = waiting
        return self._adder_class(
            config.page_size,
            tree,
            tree.token_to_kv_pool_allocator,
            running,
            ratio,
            config.max_prefill,
            config.chunk or None,
            0,
            **arguments,
        )

    def spent(self, adder: Any) -> bool:
        """Whether the round has no budget left for anybody."""
        return self._asks_first and bool(adder.budget_state() == self._results.OTHER)

    def add(self, adder: Any, entry: Any, has_chunked: bool) -> bool:
        """Offer a request to the adder; whether it looks at the next one."""
        answer = adder.add_one_req(entry, has_chunked_req=has_chunked, truncation_align_size=None)
        return bool(answer == self._results.CONTINUE)

    @staticmethod
    def end(entry: Any) -> int:
        """Where a request's next chunk ends."""
        names = vars(entry)
        if "extend_end" in names:
            end: int = entry.extend_end
        elif "extend_range" in names:
            end = entry.extend_range.end
        elif "fill_len" in names:
            end = entry.fill_len
        else:
            end = len(entry.fill_ids)
        return end

    @staticmethod
    def loaded(entry: Any) -> int:
        """Tokens of an admitted request's prefix that come from the host."""
        names = vars(entry)
        return int(entry.host_loaded_length if "host_loaded_length" in names else entry.host_hit_length)

    @staticmethod
    def retract(batch: Any) -> tuple[list[Any], float, list[Any]]:
        """The release's retraction: who waits again, the new share of new tokens, and who is given up."""
        takes = inspect.signature(batch.retract_decode).parameters
        retracted, ratio, failed = batch.retract_decode(SETTINGS) if takes else batch.retract_decode()
        return retracted, ratio, failed
