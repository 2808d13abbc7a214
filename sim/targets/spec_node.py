"""A decode node whose requests speculate, behind integers."""

from __future__ import annotations

from typing import Protocol

from .disagg import DisaggTarget
from .speculative import SpeculativeTarget

__all__ = ["SpecNodeTarget"]


class SpecNodeTarget(DisaggTarget, SpeculativeTarget, Protocol):
    """A `DisaggTarget` and a `SpeculativeTarget` at once.

    A request comes in as on any decode node, and speculates once it is started; `decode` is not called. The calls of a
    step take requests that run or are prebuilt; `prepare_decode` joins the prebuilt ones to the running batch.
    """

    def receive_draft(self, layer: int, slots: list[int], tags: list[int]) -> None:
        """The sender writes rows of the draft's pool, at slots of the layer's own pool; see `DisaggTarget.receive`."""
