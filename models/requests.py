"""Requests as a scheduler sees them: their computed tokens, and their next possible step."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Phase", "Request"]


class Phase(Enum):
    """The stage of a request."""

    WAITING = "waiting"
    ADMITTED = "admitted"
    RUNNING = "running"


@dataclass
class Request:
    """One request.

    Attributes:
        tokens: its tokens so far, prompt first.
        prompt: how many of them are the prompt.
        computed: how many have KV.
        unsaved: a chunk is computed and not yet checkpointed.
    """

    tokens: list[int]
    prompt: int
    phase: Phase = Phase.WAITING
    computed: int = 0
    unsaved: bool = False
    prefixes: list[int] = field(default_factory=list)

    @property
    def settled(self) -> bool:
        """Whether it holds slots and is between two steps."""
        return self.phase is not Phase.WAITING and not self.unsaved

    def window(self, size: int) -> tuple[int, int]:
        """The computed tokens that the next token attends to in a layer with this window."""
        return max(0, self.computed + 1 - size), self.computed
