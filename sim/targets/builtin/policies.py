"""The ways an engine has cached a translation, one class each. All are right; defects are mutants.

A pool asks its policy for SWA locs on three paths: a layer's write (`translate`), a consumer that
takes part of the running batch's translation (`translate_part`), and everything else (`lookup`).
The allocator says when the mapping changed (`invalidate`), the runner when a forward starts. The
base class caches nothing and its hooks do nothing.

All loc tensors are one-dimensional int64; an answer has the shape of its question.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import ClassVar

from torch import Tensor

from ..base import KeyChangedWarning

__all__ = ["POLICIES", "FirstLayer", "Memo", "PerForward", "Policy", "SideChannel"]


class Policy:
    """``uncached``: gathers from the mapping every time.

    Args:
        gather: reads the pool's current mapping for a loc tensor.
        first_swa_layer: the first layer of a forward that translates.
    """

    name: ClassVar[str] = "uncached"

    def __init__(self, gather: Callable[[Tensor], Tensor], first_swa_layer: int) -> None:
        self.gather = gather
        self.first_swa_layer = first_swa_layer
        self.hits = 0
        self.swa_loc: Tensor | None = None

    def translate(self, locs: Tensor, layer_id: int) -> Tensor:
        """SWA locs of the running batch's own tensor, for a write at `layer_id`."""
        return self.gather(locs)

    def translate_part(self, locs: Tensor, start: int, stop: int) -> Tensor:
        """SWA locs of elements ``[start, stop)`` of the running batch's own tensor."""
        return self.gather(locs[start:stop])

    def lookup(self, locs: Tensor) -> Tensor:
        """SWA locs of any other tensor."""
        return self.gather(locs)

    def set_swa_loc(self, swa_locs: Tensor) -> None:
        """Hand over the running batch's translation, made up front by the runner."""

    def plan(self, locs: Tensor, swa_locs: Tensor) -> None:
        """A graph runs next on the batch at `locs`; the runner has the static buffer `swa_locs` for its translation."""

    def metadata(self, locs: Tensor) -> None:
        """The running batch's attention metadata is made: in a captured forward, a part of the graph."""

    def begin_forward(self) -> None:
        """A forward starts; its batch may lie where an earlier one lay."""

    def invalidate(self) -> None:
        """The mapping changed, or another took its place."""


class SideChannel(Policy):
    """``side_channel``: the caller hands over `swa_loc`; every SWA layer writes there (SGLang PR 24138).

    Without one, or once the mapping has moved under it, it gathers.
    """

    name = "side_channel"

    def translate(self, locs: Tensor, layer_id: int) -> Tensor:
        if self.swa_loc is None:
            return self.gather(locs)
        self.hits += 1
        return self.swa_loc

    def translate_part(self, locs: Tensor, start: int, stop: int) -> Tensor:
        if self.swa_loc is None:
            return self.gather(locs[start:stop])
        self.hits += 1
        return self.swa_loc[start:stop]

    def set_swa_loc(self, swa_locs: Tensor) -> None:
        self.swa_loc = swa_locs

    def plan(self, locs: Tensor, swa_locs: Tensor) -> None:
        # In place: a graph goes on reading the buffer that it was captured with.
        swa_locs.copy_(self.gather(locs))
        self.set_swa_loc(swa_locs)

    def begin_forward(self) -> None:
        # A batch that brings no translation must not write to the last batch's slots.
        self.swa_loc = None

    def invalidate(self) -> None:
        self.swa_loc = None


class PerForward(SideChannel):
    """``per_forward``: translated once with the attention metadata, inside the graph if there is one (SGLang
    PRs 27091 and 27617)."""

    name = "per_forward"

    def plan(self, locs: Tensor, swa_locs: Tensor) -> None:
        pass

    def metadata(self, locs: Tensor) -> None:
        self.set_swa_loc(self.gather(locs))


class Memo(Policy):
    """``memo``: remembers the last answer by the question's address and length (SGLang PR 25824).

    The address says nothing about the contents: memory is written again for the next batch, and the
    mapping changes under it. Both must invalidate. Two layers that write with different tensors in
    one forward raise a `KeyChangedWarning`; questions other than a layer's write may differ freely.
    """

    name = "memo"

    def __init__(self, gather: Callable[[Tensor], Tensor], first_swa_layer: int) -> None:
        super().__init__(gather, first_swa_layer)
        self._key: tuple[int, int] | None = None
        self._answer: Tensor | None = None
        self._write_key: tuple[int, int] | None = None

    def translate(self, locs: Tensor, layer_id: int) -> Tensor:
        key = self._key_of(locs)
        if self._write_key is not None and key != self._write_key:
            message = f"layer {layer_id} writes with another loc tensor than the layers before it in this forward"
            warnings.warn(message, KeyChangedWarning, stacklevel=3)
        self._write_key = key
        return self.lookup(locs)

    def translate_part(self, locs: Tensor, start: int, stop: int) -> Tensor:
        return self.lookup(locs[start:stop])

    def lookup(self, locs: Tensor) -> Tensor:
        key = self._key_of(locs)
        if self._answer is None or key != self._key:
            self._answer = self.gather(locs)
            self._key = key
        else:
            self.hits += 1
        return self._answer

    def begin_forward(self) -> None:
        self._write_key = None
        self.invalidate()

    def invalidate(self) -> None:
        self._key = None
        self._answer = None

    @staticmethod
    def _key_of(locs: Tensor) -> tuple[int, int]:
        return locs.data_ptr(), locs.numel()


class FirstLayer(Policy):
    """``first_layer``: one answer a forward, made at its first SWA layer or when there is none (SGLang
    PRs 25889 and 26931).

    The answer belongs to the running batch, so only paths that speak of it may use it.
    """

    name = "first_layer"

    def __init__(self, gather: Callable[[Tensor], Tensor], first_swa_layer: int) -> None:
        super().__init__(gather, first_swa_layer)
        self.cached_loc: Tensor | None = None

    def translate(self, locs: Tensor, layer_id: int) -> Tensor:
        if layer_id == self.first_swa_layer or self.cached_loc is None:
            self.cached_loc = self.gather(locs)
        else:
            self.hits += 1
        return self.cached_loc

    def translate_part(self, locs: Tensor, start: int, stop: int) -> Tensor:
        if self.cached_loc is None:
            self.cached_loc = self.gather(locs)
        else:
            self.hits += 1
        return self.cached_loc[start:stop]

    def begin_forward(self) -> None:
        self.invalidate()

    def invalidate(self) -> None:
        self.cached_loc = None


POLICIES: dict[str, type[Policy]] = {
    policy.name: policy for policy in (Policy, SideChannel, Memo, FirstLayer, PerForward)
}
"""Policies by the name `Config.policy` uses."""
