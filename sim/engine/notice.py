"""Situations that show in the tree: what became of each node from one event to the next."""

from __future__ import annotations

from staleloc.models.engine import EngineWorld
from staleloc.sim.engine import events as ee
from staleloc.sim.engine.step import EngineStep
from staleloc.sim.targets.engine import NodeView, RequestView

__all__ = ["Noticer"]


class Noticer:
    """Remembers the last tree and counts what is new in the next one."""

    def __init__(self, world: EngineWorld) -> None:
        self._world = world
        self._nodes: dict[int, NodeView] = {}
        self._requests: dict[int, RequestView] = {}
        self._left: dict[int, tuple[int, ...]] = {}
        self._free = 0

    def look(self, step: EngineStep) -> None:
        """Count the situations that this event brought about."""
        now = {node.node: node for node in step.tree}
        for number, node in now.items():
            before = self._nodes.get(number)
            if before is not None:
                self._changed(step, before, node)
            parent = None if node.parent is None else now[node.parent]
            if parent is not None and parent.node not in self._nodes and node.swa and parent.full and not parent.swa:
                self._world.saw("split_across_window")
        self._transfers(step)
        self._rows(step)
        self._nodes, self._requests = now, step.requests

    def _changed(self, step: EngineStep, before: NodeView, node: NodeView) -> None:
        saw = self._world.saw
        if len(node.tokens) < len(before.tokens):
            saw("node_split")
        if before.full and not node.full:
            saw("node_evicted")
            self._left[node.node] = before.full
        if before.swa and node.full and not node.swa:
            saw("tombstoned")
        if node.full and node.swa and before.full and not before.swa and not isinstance(step.event, ee.Admit):
            saw("tombstone_recovered")
        if node.full and not before.full and self._left.pop(node.node, node.full) != node.full:
            saw("remapped_load_back")

    def _transfers(self, step: EngineStep) -> None:
        free = len(step.free.full) + len(step.free.swa)
        device, host = step.in_flight
        if host.full or host.swa:
            self._world.saw("offload_in_flight")
        if (device.full or device.swa) and free > self._free:
            self._world.saw("freed_beside_flight")
        self._free = free

    def _rows(self, step: EngineStep) -> None:
        shared: dict[int, int] = {}
        for number, view in step.requests.items():
            before = self._requests.get(number)
            if before is not None and view.evicted > before.evicted:
                self._world.saw("window_evicted_running")
            if before is not None and view.row[: len(before.row)] != before.row:
                self._world.saw("deduplicated")
            for loc in view.row[: view.shared : max(1, self._world.config.page_size)]:
                shared[loc] = shared.get(loc, 0) + 1
        if any(count > 1 for count in shared.values()):
            self._world.saw("shared_while_running")
