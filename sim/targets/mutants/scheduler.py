"""Mutants of the scheduler: who is admitted with too much or too little, what keeps an idle engine from going on."""

from __future__ import annotations

from .patches import mutants
from .transform import Mutant

__all__ = ["SCHEDULES"]

SCHEDULES = mutants(
    Mutant("schedule-", "builtin", (), "hybrid", ("uncached", "memo"), "", level="engine", features=("scheduler",)),
    """
chunk-keeps-its-window
    without a prefix cache nothing is evicted between two chunks, and the next chunk waits for ever for the
    slots of tokens that left the window
    @@ scheduler SchedulerEngine._begin
    - self.evict_window(queues.chunked)
chunk-locks-its-node
    a chunk that is stored stays locked as a whole, and the next chunk waits for ever for its SWA slots
    @@ scheduler SchedulerEngine.checkpoint
    - self._keep_window(self._requests[request])
accepts-more-than-a-pool
    a server without chunks accepts a prompt that its SWA pool can never hold
    @@ scheduler SchedulerEngine.submit
    - min(config.full_pages, config.swa_pages)
    + config.full_pages
chunk-of-full-size-or-none
    a chunk is not cut short where the pools have less room, and waits for ever
    @@ scheduler SchedulerEngine._fitting
    - start + self._spare_pages() * self._config.page_size if self._config.chunk else start
    + start
room-counts-locked-pages
    pages of the tree that running requests lock count as room, and a chunk is refused for ever that would fit
    if it were smaller
    @@ scheduler SchedulerEngine._spare_pages
    - node.swa is not None and not node.swa_locks
    + node.swa is not None
refusal-keeps-its-row
    a request that finds no room keeps its row and its lock while it waits
    @@ scheduler SchedulerEngine._grant
    - self._release(number)
window-cut-a-page-late
    the lock of a prefix leaves out the first page of the window
    @@ scheduler SchedulerEngine._keep_window
    - self._aligned(max(0, running.length + 1 - self._config.window))
    + self._aligned(max(0, running.length + 1 - self._config.window)) + self._config.page_size
retraction-loses-a-token
    a retracted request waits without its newest token, and answers another one
    @@ scheduler SchedulerEngine.decode_round
    - self._requests[number].tokens
    + self._requests[number].tokens[:-1]
chunk-decodes
    a request whose prompt is computed in part joins the running batch
    @@ scheduler SchedulerEngine.prefilled
    - number != queues.chunked
    + True
abort-keeps-the-chunk [abort]
    a request that is aborted between two chunks is still the one to go on with
    @@ scheduler SchedulerEngine.abort
    - self._queues.chunked = None
abort-leaves-it-waiting [abort]
    a request that is aborted in the queue stays in it
    @@ scheduler SchedulerEngine.abort
    - self._queues.waiting.pop(request, None)
    + self._queues.waiting.get(request)
""",
)
