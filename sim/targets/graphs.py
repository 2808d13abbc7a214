"""The protocol of an engine that runs forwards through captured graphs, in integers.

A runner captures a forward for a number of tokens, ahead of any batch. Later a batch of at most so many
tokens is written into the graph's static inputs, and the graph is replayed: the code that was captured does
not run again. Rows of a graph that the batch does not fill go to the dummy slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .engine import EngineTarget

__all__ = ["DECODES", "MAX_GRAPH_TOKENS", "PREFILLS", "RUNNERS", "GraphTarget", "RunView", "Span"]

RUNNERS = ("standard", "piecewise", "breakable", "speculative")
"""Ways to capture: the whole forward, parts of it, one capture with breaks, a draft and its verification."""

DECODES = ("standard", "breakable")
"""Runners of a decode step."""

PREFILLS = ("piecewise", "breakable")
"""Runners of a chunk of a prompt."""

MAX_GRAPH_TOKENS = 128
"""Tokens of the largest forward that can be captured."""

Span = tuple[int, int, int]
"""A request and the tokens of it that a forward computes, from and to."""


@dataclass(frozen=True)
class RunView:
    """The writes of the last forward through a graph.

    Attributes:
        locs: for each layer the slots that were written, in the layer's own pool: the batch's tokens in
            order, then the graph's other writes.
    """

    locs: tuple[tuple[int, ...], ...]


class GraphTarget(EngineTarget, Protocol):
    """An `EngineTarget` with graphs. `tags` hold, for each layer, one tag a token."""

    def capture(self, runner: str, size: int) -> None:
        """Warm up, then capture a forward of `size` tokens; the speculative runner captures draft and target."""

    def replay(self, runner: str, spans: list[Span], tags: list[list[int]]) -> None:
        """Run the forward over these spans, whose tokens have slots, through the smallest graph that holds it. The
        speculative runner runs the target's."""

    def begin_draft(self, requests: list[int], count: int) -> list[int] | None:
        """Allocate `count` tokens for each request, for a draft alone. Their full locs, one request after the other,
        or None if there is no room (nothing is held then)."""

    def draft(self, tags: list[list[int]]) -> None:
        """Run the draft's graph over the tokens of `begin_draft`."""

    def end_draft(self) -> None:
        """Free the draft's allocation."""

    def append(self, requests: list[int], tokens: Sequence[int]) -> list[int] | None:
        """Append these tokens to each request and allocate them, evicting if need be. Their full locs, one request
        after the other, or None if there is no room (nothing changes then)."""

    def reject(self, request: int, count: int) -> None:
        """Take back the last `count` tokens of a request."""

    def raw_run(self) -> RunView:
        """The writes of the last `capture`, `replay`, `draft` or whole forward of `write`; a capture ends with a first
        replay."""
