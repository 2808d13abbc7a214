"""The builtin target as a decode node: slots up front, KV from a sender, retraction to the CPU and back."""

from __future__ import annotations

import torch

from ....models.config import Config
from ..base import Profile
from ..disagg import NODE_CALLS, OverAdmission, Preallocated, Preallocation, Queues, Rules
from ..tags import encode
from .decode_accounts import DecodeAccounts
from .decode_jobs import DecodeJobs, Job
from .engine import BuiltinEngine
from .engine_state import ENGINE
from .requests import Request
from .tree_nodes import Lock, Node

__all__ = ["DISAGG", "DisaggEngine"]

DISAGG = Profile(
    level="engine",
    features=("disagg",),
    pool=ENGINE.pool,
    policies=ENGINE.policies,
    page_sizes=ENGINE.page_sizes,
    more_pages=ENGINE.more_pages,
    dtypes=ENGINE.dtypes,
    events=frozenset(NODE_CALLS) - {"draft_slots"},
    decode_tree=True,
)


class DisaggEngine(BuiltinEngine):
    """`BuiltinEngine`, and a `DisaggTarget` if the config says so. See there for what the methods mean."""

    profiles: tuple[Profile, ...] = (*BuiltinEngine.profiles, DISAGG)

    _jobs: DecodeJobs
    _accounts: DecodeAccounts

    def build(self, config: Config) -> None:
        """See `DisaggTarget.build`."""
        super().build(config)
        if config.level == ENGINE.level:
            self._jobs = DecodeJobs()
            self._accounts = DecodeAccounts(config, self._allocator, self._tree, self._jobs)

    def rules(self) -> Rules:
        """See `DisaggTarget.rules`."""
        return Rules(reserves_swa=self._config.decode_tree)

    def enqueue(self, request: int, tokens: list[int], most: int) -> bool:
        """See `DisaggTarget.enqueue`."""
        job = Job(request, list(tokens), len(tokens), most)
        if self._accounts.rejects(job):
            return False
        self._jobs.queued.append(job)
        return True

    def preallocate(self) -> Preallocated:
        """See `DisaggTarget.preallocate`."""
        admitted = []
        while self._jobs.queued:
            job = self._jobs.queued[0]
            lock = self._fitting_lock(job)
            if lock is None:
                break
            request = self._allocate(job, lock)
            self._jobs.transferring.append(self._jobs.queued.pop(0))
            admitted.append(self._told(job, request))
        return Preallocated(tuple(admitted))

    def receive(self, layer: int, slots: list[int], tags: list[int]) -> None:
        """See `DisaggTarget.receive`."""
        index = torch.tensor(slots, dtype=torch.int64)
        for buffer, rows in zip(self._pool.layer_buffers(layer), encode(tags, self._dtype), strict=False):
            buffer.index_copy_(0, index, rows)

    def arrived(self, request: int, token: int) -> None:
        """See `DisaggTarget.arrived`."""
        job = self._jobs.find(request)
        job.tokens.append(token)
        self._jobs.transferring.remove(job)
        self._jobs.waiting.append(job)

    def start(self) -> None:
        """See `DisaggTarget.start`. SWA slots that nobody filled are given up before anything is inserted."""
        for job in self._jobs.waiting:
            self._drop_unfilled(job)
            self.checkpoint(job.number)
        self._jobs.prebuilt += self._jobs.waiting
        self._jobs.waiting.clear()

    def decode(self, requests: list[int], tokens: list[int]) -> list[int] | None:
        """See `DisaggTarget.decode`."""
        self._jobs.running += self._jobs.prebuilt
        self._jobs.prebuilt.clear()
        return super().decode(requests, tokens)

    def checkpoint(self, request: int) -> None:
        """See `EngineTarget.checkpoint`. A decode node without a tree inserts nothing."""
        if self._config.decode_tree or "disagg" not in self._config.features:
            super().checkpoint(request)

    def retract(self, request: int) -> None:
        """See `DisaggTarget.retract`."""
        job, running = self._jobs.find(request), self._requests[request]
        job.copy = self._hybrid().get_cpu_copy(running.row[: running.length])
        self._release(request)
        self._jobs.running.remove(job)
        if not self._accounts.rejects(job):
            self._jobs.retracted.append(job)

    def resume(self) -> list[int]:
        """See `DisaggTarget.resume`. The tree is not asked: `start` finds out what it has meanwhile."""
        resumed = []
        full_left, swa_left = self._accounts.budgets(resuming=True)
        while self._jobs.retracted:
            job = self._jobs.retracted[0]
            full, swa = self._accounts.required(job)
            if full > full_left or (self._accounts.uses_tail and swa > swa_left):
                break
            running = self._allocate(job, self._tree.lock(self._tree.root, 0))
            self._load(job, running)
            self._jobs.waiting.append(self._jobs.retracted.pop(0))
            full_left, swa_left = full_left - full, swa_left - swa
            resumed.append(job.number)
        return resumed

    def finish(self, request: int) -> None:
        """See `DisaggTarget.finish`."""
        self._jobs.take(request)
        super().finish(request)

    def abort(self, request: int) -> None:
        """See `DisaggTarget.abort`."""
        self._jobs.take(request)
        if request in self._requests:
            super().abort(request)

    # Looking

    def raw_queues(self) -> Queues:
        """See `DisaggTarget.raw_queues`."""
        return Queues(*(tuple(job.number for job in queue) for queue in self._jobs.all()))

    def raw_uses_tail(self) -> bool:
        """See `DisaggTarget.raw_uses_tail`."""
        return self._accounts.uses_tail

    def raw_tail(self, length: int) -> int:
        """See `DisaggTarget.raw_tail`."""
        return self._accounts.tail(length)

    def raw_lengths(self, request: int) -> tuple[int, int]:
        """See `DisaggTarget.raw_lengths`."""
        return self._accounts.lengths(self._jobs.find(request))

    def raw_required(self, request: int) -> tuple[int, int]:
        """See `DisaggTarget.raw_required`."""
        return self._accounts.required(self._jobs.find(request))

    def raw_retractable(self, request: int) -> int:
        """See `DisaggTarget.raw_retractable`."""
        return self._accounts.retractable([self._jobs.find(request)])[1]

    def raw_active(self) -> int:
        """See `DisaggTarget.raw_active`."""
        return self._accounts.active()

    def raw_budgets(self, resuming: bool) -> tuple[int, int]:
        """See `DisaggTarget.raw_budgets`."""
        return self._accounts.budgets(resuming)

    def raw_saved(self) -> dict[int, tuple[bool, ...]]:
        """See `DisaggTarget.raw_saved`."""
        return {job.number: tuple(job.copy.swa_mask.tolist()) for job in self._jobs.retracted if job.copy is not None}

    # Inside

    def _fitting_lock(self, job: Job) -> Lock | None:
        """Keep what the tree has of a prompt, if the request can be admitted with it; otherwise nothing, if it can be
        admitted so: it wants fewer SWA slots then. None if it can not be admitted at all.

        What fits is decided with the prefix locked: its slots cannot be had then.
        """
        for node in dict.fromkeys((self._prefix(job), self._tree.root)):
            lock = self._tree.lock(node, self._tree.window_start(node))
            if self._accounts.fits(job, node.end):
                return lock
            self._slots.unlock(lock)
        return None

    def _prefix(self, job: Job) -> Node:
        """The end of what the tree has of a prompt; at least one token is left for the sender."""
        if not self._config.decode_tree:
            return self._tree.root
        return self._tree.match(self._keys(job.tokens[: job.prompt])[: self._aligned(job.prompt - 1)]).device_node

    def _allocate(self, job: Job, lock: Lock) -> Request:
        """Give a request slots for all its tokens with KV, behind what the tree has of them.

        From the start only the tail gets SWA slots. Behind a prefix every token does, and `start` gives up those that
        nobody filled: a tail would have to begin on a page of its own.
        """
        cached, length = lock.node.end, job.committed
        row = self._table.take()
        row[:cached] = torch.tensor(lock.node.prefix_locs(), dtype=torch.int64)
        last = [int(row[cached - 1]) if cached else -1]
        evicted = 0
        pages = self._allocator.full.pages_needed([cached], [length])
        if self._accounts.uses_tail and not cached:
            tail = self._accounts.tail(length)
            self._evictor.make_room(pages, self._allocator.swa.pages_needed([0], [tail]))
            locs = self._allocator.alloc_extend_swa_tail(0, length, -1, tail)
            evicted = length - tail
        else:
            self._evictor.make_room(pages, pages)
            locs = self._allocator.alloc_extend([cached], [length], last)
        if locs is None:
            raise OverAdmission(f"request {job.number} needs slots for {length} tokens behind {cached} in the tree")
        running = Request(job.tokens, row, length=cached, shared=cached, evicted=evicted, lock=lock)
        running.append(locs)
        self._requests[job.number] = running
        return running

    def _told(self, job: Job, running: Request) -> Preallocation:
        """What the sender is told: where the tokens go that are not in the tree, and where the window's SWA rows go."""
        size, cached = self._config.page_size, running.shared
        job.swa_from = self._aligned(max(cached, job.prompt - self._config.window))
        full = running.row[cached : job.prompt : size]
        swa = self._pool.gather(running.row[job.swa_from : job.prompt : size])
        return Preallocation(job.number, cached, tuple((full // size).tolist()), tuple((swa // size).tolist()))

    def _load(self, job: Job, running: Request) -> None:
        """A resumed request's KV comes back from the CPU."""
        assert job.copy is not None
        self._hybrid().load_cpu_copy(job.copy, running.row[: running.length])
        missing = torch.nonzero(~job.copy.swa_mask).flatten().tolist()
        job.swa_from = missing[-1] + 1 if missing else 0
        job.copy = None

    def _drop_unfilled(self, job: Job) -> None:
        """Give up a request's own SWA slots in front of the first row that was written."""
        running = self._requests[job.number]
        first = max(running.evicted, running.shared)
        if job.swa_from <= first:
            return
        self._allocator.free_swa(running.locs(first, job.swa_from))
        self._tree.release_window(running.lock, job.swa_from)
        running.evicted = job.swa_from
