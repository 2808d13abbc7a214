"""Situations that show in the raw state: what became of nodes, rows and copies from one event to the next."""

from __future__ import annotations

from collections.abc import Iterable

from ....models.engine import EngineWorld
from ...targets.engine import Copying, NodeView, RequestView
from ..part import Observer
from . import events as ee
from .step import EngineStep

__all__ = ["Noticer", "ResultsNoticer"]

_LOADS = ("admit", "preallocate", "prefill_round", "launch")
"""Kinds of events that load rows back from the host."""

_INSERTS = ("checkpoint", "finish", "results", "prefill_round", "decode_round", "launch", "process")


class Noticer(Observer):
    """Remembers the last state and counts what is new in the next one."""

    def __init__(self, world: EngineWorld) -> None:
        self._world = world
        self._nodes: dict[int, NodeView] = {}
        self._requests: dict[int, RequestView] = {}
        self._left: dict[int, NodeView] = {}
        self._mapping: list[int] = []
        self._free: tuple[set[int], set[int]] = (set(), set())
        self._copying: list[Copying] = []

    def look(self, step: EngineStep) -> None:
        """Count the situations that this event brought about."""
        now = {node.node: node for node in step.tree}
        for number, node in now.items():
            before = self._nodes.get(number)
            if before is not None:
                self._changed(step, before, node, now)
        if step.event.kind in _LOADS:
            self._loaded(now)
        if not isinstance(step.event, ee.Flush):
            self._off_host(now)
        if isinstance(step.event, ee.Evict) and self._world.config.eviction_policy != "lru":
            self._chosen(now)
        self._masks(now)
        self._transfers(step)
        self._rows(step)
        self._nodes, self._requests, self._mapping = now, step.requests, step.mapping

    def _chosen(self, now: dict[int, NodeView]) -> None:
        inner = {node.parent for node in self._nodes.values() if node.full}
        free = [it for number, it in self._nodes.items() if it.full and not it.full_locks and number not in inner]
        gone = [it for it in free if it.node not in now or not now[it.node].full]
        if 0 < len(gone) < len(free):
            self._world.saw("policy_chose")

    def _changed(self, step: EngineStep, before: NodeView, node: NodeView, now: dict[int, NodeView]) -> None:
        saw = self._world.saw
        if len(node.tokens) < len(before.tokens):
            saw("node_split")
            front = now.get(node.parent) if node.parent is not None else None
            if front is not None and front.full and node.full:
                self._split(step, front, node)
        if before.full and not node.full:
            saw("node_evicted")
        if before.swa and node.full and not node.swa:
            saw("tombstoned")
        if step.event.kind in _INSERTS and before.full and not before.swa and node.full and node.swa:
            saw("tombstone_recovered")
        if (before.full and not node.full) or (before.swa and not node.swa):
            self._left[node.node] = before

    def _split(self, step: EngineStep, front: NodeView, node: NodeView) -> None:
        if node.swa and not front.swa:
            self._world.saw("recovered_in_part")
        start = next(len(item.before) for item in step.placed if item.node is front)
        end = start + len(front.tokens) + len(node.tokens)
        for number, view in step.requests.items():
            if number not in self._world.requests:  # the target alone knows it, which a check says
                continue
            edge, _ = self._world.requests[number].window(self._world.config.window)
            if start < edge < end and view.row[start : min(view.shared, start + 1)] == (front.full or ())[:1]:
                self._world.saw("split_across_window")
                return

    def _loaded(self, now: dict[int, NodeView]) -> None:
        """Only an admission brings rows back from the host, and it brings no others."""
        for number, node in now.items():
            before, left = self._nodes.get(number), self._left.get(number)
            if before is None or left is None:
                continue
            back_full, back_swa = node.full and not before.full, node.swa and not before.swa
            if (back_full and _moved(left.full, node.full)) or (back_swa and _moved(left.swa, node.swa)):
                self._world.saw("remapped_load_back")

    def _off_host(self, now: dict[int, NodeView]) -> None:
        for number, before in self._nodes.items():
            if before.host_full and (number not in now or not now[number].host_full):
                self._world.saw("host_evicted")
                return

    def _masks(self, now: dict[int, NodeView]) -> None:
        """Nodes whose full rows one event moves to the other tier, some with their SWA rows and some without."""
        for full, swa, tier in (("host_full", "host_swa", "full"), ("full", "swa", "host_full")):
            masks = set()
            for number, node in now.items():
                before = self._nodes.get(number)
                known = before is not None and getattr(before, full) is None and getattr(before, tier) is not None
                if getattr(node, full) is not None and (known or (before is None and full == "host_full")):
                    masks.add(getattr(node, swa) is not None)
            if len(masks) == 2:
                self._world.saw("partial_mask")

    def _transfers(self, step: EngineStep) -> None:
        copying = step.copying
        if any(copy.to_host for copy in copying):
            self._world.saw("offload_in_flight")
        lasting = [copy for copy in copying if copy.to_host and copy in self._copying]
        free = (set(step.free.full), set(step.free.swa))
        sides = (
            [slot for copy in lasting for slot in copy.device.full],
            [s for copy in lasting for s in copy.device.swa],
        )
        if any(
            _next_to(step.pages(used)) & (now - before)
            for used, now, before in zip(sides, free, self._free, strict=True)
        ):
            self._world.saw("freed_beside_flight")
        self._free, self._copying = free, copying

    def _rows(self, step: EngineStep) -> None:
        shared: dict[int, int] = {}
        for number, view in step.requests.items():
            before = self._requests.get(number)
            if before is not None and view.evicted > before.evicted:
                gone = view.row[before.evicted : view.evicted]
                if any(self._mapping[loc] and not step.mapping[loc] for loc in gone):
                    self._world.saw("window_evicted_running")
            if before is not None and view.row[: len(before.row)] != before.row:
                self._world.saw("deduplicated")
            for loc in view.row[: view.shared : max(1, self._world.config.page_size)]:
                shared[loc] = shared.get(loc, 0) + 1
        if any(count > 1 for count in shared.values()):
            self._world.saw("shared_while_running")


class ResultsNoticer(Observer):
    """Counts what happens inside the free groups of batches' results, on any kind of node."""

    def __init__(self, world: EngineWorld) -> None:
        self._world = world
        self._nodes: dict[int, NodeView] = {}

    def look(self, step: EngineStep) -> None:
        """Count the situations that this event brought about."""
        now = {node.node: node for node in step.tree}
        event = step.effect
        if isinstance(event, ee.Results) and step.grouped:
            self._results(event)
            self._changed(now)
        self._nodes = now

    def _results(self, event: ee.Results) -> None:
        if len(event.finished) > 1:
            self._world.saw("results_in_group")
        if event.aborted:
            self._world.saw("aborted_in_group")
        if any(number in self._world.requests for number in event.requests):
            self._world.saw("went_on_in_group")

    def _changed(self, now: dict[int, NodeView]) -> None:
        for number, before in self._nodes.items():
            node = now.get(number)
            if before.full and (node is None or not node.full):
                self._world.saw("evicted_in_group")
            if before.full and not before.swa and node is not None and node.full and node.swa:
                self._world.saw("recovered_in_group")


def _moved(left: tuple[int, ...] | None, back: tuple[int, ...] | None) -> bool:
    """Whether a node came back elsewhere. If it was split in between, what is left of it is its end."""
    return left is not None and back is not None and left[-len(back) :] != back


def _next_to(pages: Iterable[int]) -> set[int]:
    pages = set(pages)
    return {page + side for page in pages for side in (-1, 1)} - pages
