"""The builtin decode node with a host tier: a prompt's prefix is loaded back when the request gets its slots."""

from __future__ import annotations

from dataclasses import replace

from ..base import Profile
from ..disagg import Preallocation
from .decode_jobs import Job
from .disagg import DISAGG, DisaggEngine
from .requests import Request
from .tree_nodes import Lock, Node

__all__ = ["HostNode", "hosted"]


def hosted(node: Profile) -> Profile:
    """A decode node with a host tier."""
    return replace(node, host=True, small_host=True, events=node.events | {"transfer_done"})


class HostNode(DisaggEngine):
    """`DisaggEngine`, and a `HostNodeTarget` if the config says so. See there for what the methods mean.

    Backups begin where a request is inserted, as on any engine.
    """

    profiles: tuple[Profile, ...] = (*DisaggEngine.profiles, hosted(DISAGG))

    _loaded: int = 0

    def retract(self, request: int) -> None:
        """See `HostNodeTarget.retract`. What is on its way from the host is copied once it is there."""
        self._wait(request)
        super().retract(request)

    # Inside

    def _fitting_lock(self, job: Job) -> Lock | None:
        """See `DisaggEngine._fitting_lock`. What the host has of a prompt is asked for first."""
        self._loaded = 0
        if not self._config.host_full_size:
            return super()._fitting_lock(job)
        prompt = self._keys(job.tokens[: job.prompt])
        match = self._tree.match(prompt[: self._aligned(job.prompt - 1)])
        if match.node is not match.device_node:
            lock = self._loading_lock(job, match.node)
            if lock is not None:
                return lock
        return super()._fitting_lock(job)

    def _loading_lock(self, job: Job, node: Node) -> Lock | None:
        """Keep a prefix that is partly on the host and start its load-back; None, and nothing is held, if there is no
        room for it beside the request."""
        lock = self._tree.lock(node, self._tree.window_start(node))
        missing = sum(len(it.tokens) for it in node.path() if self._is_missing(it, lock))
        if self._accounts.fits(job, node.end, missing):
            row = self._table.take()
            loaded = self._load_back.load(lock, row)
            self._table.give_back(row)
            if loaded is not None:
                self._loaded = loaded
                return lock
        self._slots.unlock(lock)
        return None

    @staticmethod
    def _is_missing(node: Node, lock: Lock) -> bool:
        """Whether rows of a locked path's node come from the host."""
        return node.end > 0 and (node.full is None or (node.swa is None and node.start >= lock.since))

    def _told(self, job: Job, running: Request) -> Preallocation:
        told = super()._told(job, running)
        return Preallocation(told.request, told.cached, told.full, told.swa, self._loaded)
