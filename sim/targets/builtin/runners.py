"""Runners: how a forward goes through captured graphs. One class a way to capture, as SGLang has them.

Every runner warms a size up before it captures it, invalidates what the policy remembers at the head of
every run, warm-ups and captures included (SGLang PR 25824), and keeps its inputs in static buffers, which
it may share with other runners. They differ in what is inside a graph:

=============  ==================================================================================
standard       everything: the metadata, each layer's rows, and their writes
piecewise      each layer's rows; metadata and writes are made in between, for the batch's own tokens
breakable      metadata and rows; the capture is broken at each write, which is made in between
=============  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from .device import Device, Graph
from .graph_buffers import GraphBuffers
from .pools import KvPool

__all__ = ["Breakable", "Captured", "Piecewise", "Runner", "Standard"]

WARM_UPS = 2
"""Runs before a capture, as in SGLang."""


@dataclass
class Captured:
    """What a capture left.

    Attributes:
        graphs: in the order in which they are replayed.
        rows: for each layer the rows that its graph computes, where they are written outside of it.
        swa_loc: the translation that the metadata made inside a graph, if any.
        written: the tensor of locs that each layer's write took, where it is in a graph.
    """

    graphs: list[Graph]
    rows: list[tuple[Tensor, ...]] = field(default_factory=list)
    swa_loc: Tensor | None = None
    written: dict[int, Tensor] = field(default_factory=dict)


class Runner:
    """Captures a forward for some sizes, in tokens, and runs batches through the smallest graph that holds them."""

    padded: ClassVar[bool] = True
    """Whether writes are made for all tokens of a graph; where not, for those of the batch."""

    def __init__(self, pool: KvPool, buffers: GraphBuffers, device: Device) -> None:
        self.pool = pool
        self.policy = pool.policy
        self.buffers = buffers
        self.device = device
        self.layers = range(len(pool.layers))
        self.captured: dict[int, Captured] = {}

    def capture(self, size: int) -> None:
        """Capture a forward of `size` tokens; an earlier capture of this size is dropped."""
        self.buffers.clear()
        self._warm_up(size)
        # What a warm-up has translated must not pass for a part of the graph.
        self._start(size)
        self.captured[size] = self._capture(size)
        self._settle(size)

    def run(self, locs: Sequence[int], tags: Sequence[Sequence[int]]) -> None:
        """Run a batch.

        Args:
            locs: full locs of its tokens.
            tags: for each layer one tag a token.
        """
        size = self.fitting(len(locs))
        self.buffers.fill(locs, tags, size)
        self._start(size if self.padded else len(locs))
        self._replay(size, len(locs))

    def fitting(self, count: int) -> int:
        """Size of the graph for `count` tokens.

        Raises:
            ValueError: no captured graph is large enough.
        """
        sizes = [size for size in self.captured if size >= count]
        if not sizes:
            raise ValueError(f"no graph was captured for {count} tokens")
        return min(sizes)

    def _start(self, count: int) -> None:
        """The head of a run over the first `count` tokens of the buffers."""
        self.policy.begin_forward()
        self.policy.plan(self.buffers.locs[:count], self.buffers.swa_locs[:count])

    def _warm_up(self, size: int) -> None:
        """Forwards without a graph, over the dummy slot."""
        for _ in range(WARM_UPS):
            self._start(size)
            self._forward(size)

    def _settle(self, size: int) -> None:
        """A first replay, over the dummy slot: from then on everything that the graph computes has a value."""
        self._start(size)
        self._replay(size, size)

    def _forward(self, size: int) -> None:
        """A forward, layer by layer."""
        self.policy.metadata(self.buffers.locs[:size])
        for layer in self.layers:
            self._write(layer, self._compute(layer, size), size)

    def _compute(self, layer: int, size: int) -> tuple[Tensor, ...]:
        """A layer's rows, in tensors of their own."""
        return tuple(part.clone() for part in self.buffers.of_layer(layer, size))

    def _write(self, layer: int, rows: tuple[Tensor, ...], count: int) -> None:
        """Write a layer's rows for the first `count` tokens."""
        self.pool.set_kv_buffer(layer, self.buffers.locs[:count], *(part[:count] for part in rows))

    def _capture(self, size: int) -> Captured:
        raise NotImplementedError

    def _replay(self, size: int, count: int) -> None:
        raise NotImplementedError


class Standard(Runner):
    """One graph for the whole forward."""

    def _capture(self, size: int) -> Captured:
        graph = self.device.graph()
        with graph.capture():
            self._forward(size)
        return Captured([graph], written=dict(self.pool.written))

    def _replay(self, size: int, count: int) -> None:
        captured = self.captured[size]
        captured.graphs[0].replay()
        self.pool.written = dict(captured.written)


class Piecewise(Runner):
    """A graph for each layer's rows; what depends on the batch is done in between, and for no other tokens."""

    padded = False

    def _capture(self, size: int) -> Captured:
        captured = Captured([self.device.graph() for _ in self.layers])
        for layer, graph in enumerate(captured.graphs):
            with graph.capture():
                captured.rows.append(self._compute(layer, size))
        return captured

    def _replay(self, size: int, count: int) -> None:
        captured = self.captured[size]
        self.policy.metadata(self.buffers.locs[:count])
        for layer, graph in enumerate(captured.graphs):
            graph.replay()
            self._write(layer, captured.rows[layer], count)


class Breakable(Runner):
    """One capture that is broken at each write. The metadata is made in the first part, for all of its tokens."""

    padded = False

    def _capture(self, size: int) -> Captured:
        captured = Captured([self.device.graph() for _ in self.layers])
        for layer, graph in enumerate(captured.graphs):
            with graph.capture():
                if layer == 0:
                    self.policy.metadata(self.buffers.locs[:size])
                    captured.swa_loc = self.policy.swa_loc
                captured.rows.append(self._compute(layer, size))
        return captured

    def _replay(self, size: int, count: int) -> None:
        captured = self.captured[size]
        for layer, graph in enumerate(captured.graphs):
            graph.replay()
            if captured.swa_loc is not None:
                # Where the graph writes it, not where an eager forward would have made it.
                self.policy.set_swa_loc(captured.swa_loc[:count])
            self._write(layer, captured.rows[layer], count)
