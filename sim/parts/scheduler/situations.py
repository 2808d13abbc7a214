"""Situations that show in what a round came to."""

from __future__ import annotations

from ....models.scheduler import SchedulerWorld
from ..part import Observer
from .step import SchedulerStep

__all__ = ["HOSTED", "Noticer"]

HOSTED = frozenset(
    {
        *("host_hit", "remapped_load_back", "partial_mask", "node_evicted", "host_evicted", "offload_in_flight"),
        *("freed_beside_flight", "forward_over_flight"),
    }
)
"""Situations that take a host tier."""


class Noticer(Observer):
    """Remembers how the last round ended."""

    def __init__(self, world: SchedulerWorld) -> None:
        self._world = world
        self._refused = False
        self._windows: dict[int, int] = {}

    def look(self, step: SchedulerStep) -> None:
        """Count the situations that this event brought about."""
        if step.fault is not None:
            return
        if step.round is not None:
            self._prefill(step)
        if step.decoding is not None and step.decoding.retracted:
            self._world.saw("retracted")
            if self._world.chunked is not None:
                self._world.saw("retracted_beside_chunk")
        if step.decoding is not None and step.decoding.failed:
            self._world.saw("outgrown")
        evicted = {number: view.evicted for number, view in step.requests.items()}
        if step.round is not None and any(evicted[it] > self._windows.get(it, 0) for it in evicted):
            self._world.saw("window_evicted_in_prefill")
        self._windows = evicted

    def _prefill(self, step: SchedulerStep) -> None:
        assert step.round is not None
        world, grants = self._world, step.round.grants
        if not grants:
            world.saw("admission_refused")
        elif self._refused:
            world.saw("granted_after_refusal")
        self._refused = not grants
        if len(grants) > 1:
            world.saw("admitted_several")
        if step.ran and grants:
            world.saw("admitted_beside_running")
        for grant in grants:
            end = grant.cached + grant.count
            if end < world.requests[grant.request].prompt and grant.count < world.config.chunk:
                world.saw("chunk_cut_short")
