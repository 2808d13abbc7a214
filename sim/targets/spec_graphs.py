"""The protocol of an engine that decodes speculatively through captured graphs, in integers."""

from __future__ import annotations

from typing import Protocol

from .graphs import GraphTarget
from .speculative import SpeculativeTarget

__all__ = ["SpecGraphTarget"]


class SpecGraphTarget(SpeculativeTarget, GraphTarget, Protocol):
    """Both, with one draft: `capture` of the speculative runner captures the draft's forward and the target's.

    `replay` of that runner is a verification; `begin_draft`, `draft`, `end_draft`, `append` and `reject` are never
    called.
    """

    def replay_draft(self, locs: list[int], tags: list[list[int]]) -> None:
        """Run a forward of the draft over these full locs through the smallest graph that holds it; `tags` hold, for
        each layer, one tag a token."""
