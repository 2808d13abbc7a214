"""Mutants of the scheduler: who is admitted with too much or too little, what keeps an idle engine from going on."""

from __future__ import annotations

from .edits import drop, swap
from .transform import Edit, Mutant

__all__ = ["SCHEDULES"]


def _mutant(name: str, story: str, *edits: Edit, events: tuple[str, ...] = ()) -> Mutant:
    return Mutant(
        f"schedule-{name}", "builtin", edits, "hybrid", ("uncached", "memo"), story, events, level="engine",
        features=("scheduler",),
    )  # fmt: skip


def _swap(method: str, old: str, new: str) -> Edit:
    return swap("scheduler", f"SchedulerEngine.{method}", old, new)


def _drop(method: str, old: str) -> Edit:
    return drop("scheduler", f"SchedulerEngine.{method}", old)


SCHEDULES: tuple[Mutant, ...] = (
    _mutant(
        "chunk-keeps-its-window",
        "without a prefix cache nothing is evicted between two chunks, and the next chunk waits for ever for the slots "
        "of tokens that left the window",
        _drop("_begin", "self.evict_window(queues.chunked)"),
    ),
    _mutant(
        "chunk-locks-its-node",
        "a chunk that is stored stays locked as a whole, and the next chunk waits for ever for its SWA slots",
        _drop("checkpoint", "self._keep_window(self._requests[request])"),
    ),
    _mutant(
        "accepts-more-than-a-pool",
        "a server without chunks accepts a prompt that its SWA pool can never hold",
        _swap("submit", "min(config.full_pages, config.swa_pages)", "config.full_pages"),
    ),
    _mutant(
        "chunk-of-full-size-or-none",
        "a chunk is not cut short where the pools have less room, and waits for ever",
        _swap(
            "_fitting", "start + self._spare_pages() * self._config.page_size if self._config.chunk else start", "start"
        ),
    ),
    _mutant(
        "room-counts-locked-pages",
        "pages of the tree that running requests lock count as room, and a chunk is refused for ever that would fit if "
        "it were smaller",
        _swap("_spare_pages", "node.swa is not None and not node.swa_locks", "node.swa is not None"),
    ),
    _mutant(
        "refusal-keeps-its-row",
        "a request that finds no room keeps its row and its lock while it waits",
        _drop("_grant", "self._release(number)"),
    ),
    _mutant(
        "window-cut-a-page-late",
        "the lock of a prefix leaves out the first page of the window",
        _swap(
            "_keep_window",
            "self._aligned(max(0, running.length + 1 - self._config.window))",
            "self._aligned(max(0, running.length + 1 - self._config.window)) + self._config.page_size",
        ),
    ),
    _mutant(
        "retraction-loses-a-token",
        "a retracted request waits without its newest token, and answers another one",
        _swap("decode_round", "self._requests[number].tokens", "self._requests[number].tokens[:-1]"),
    ),
    _mutant(
        "chunk-decodes",
        "a request whose prompt is computed in part joins the running batch",
        _swap("prefilled", "number != queues.chunked", "True"),
    ),
    _mutant(
        "abort-keeps-the-chunk",
        "a request that is aborted between two chunks is still the one to go on with",
        _drop("abort", "self._queues.chunked = None"),
        events=("abort",),
    ),
    _mutant(
        "abort-leaves-it-waiting",
        "a request that is aborted in the queue stays in it",
        _swap("abort", "self._queues.waiting.pop(request, None)", "self._queues.waiting.get(request)"),
        events=("abort",),
    ),
)
