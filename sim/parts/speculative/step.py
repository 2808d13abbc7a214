"""What a check of speculative decode is given: an engine-level step, and what the draft's pool holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, cast

from ....models.radix import Placed, place
from ....models.speculative import SpecWorld, key_numbers
from ...targets.base import Rows
from ...targets.engine import RequestView
from ...targets.speculative import Branches, SpeculativeTarget
from ..engine.step import EngineStep

__all__ = ["Seen", "SpecStep"]


class Seen(NamedTuple):
    """Rows that attention read within a step, before anything was accepted.

    Attributes:
        reader: who read them, for people.
        layer: at which layer.
        rows: what was read.
        tags: what had to be there.
    """

    reader: str
    layer: int
    rows: Rows
    tags: Sequence[int]


@dataclass
class SpecStep(EngineStep):
    """One event after a speculative target has executed it.

    Attributes:
        seen: what drafts and verifications read.
        prepared: requests that the event prepared.
        branches: request -> where the draft put its tokens.
        accepted: request -> nodes that the event accepted.
    """

    world: SpecWorld
    seen: list[Seen] = field(default_factory=list)
    prepared: list[int] = field(default_factory=list)
    branches: dict[int, Branches] = field(default_factory=dict)
    accepted: dict[int, list[int]] = field(default_factory=dict)

    @property
    def engine(self) -> SpeculativeTarget:
        """The target."""
        return cast(SpeculativeTarget, self.target)

    @property
    def rules(self) -> object:
        """See `staleloc.sim.targets.speculative.SpecRules`."""
        return self.world.rules

    @cached_property
    def keyed(self) -> list[Placed]:
        """The nodes with their places, in keys."""
        bigram = self.world.config.bigram
        return place([replace(it, tokens=tuple(key_numbers(it.tokens, it.after, bigram))) for it in self.tree])

    def path(self, number: int, count: int) -> list[int]:
        """The first `count` keys of a request."""
        return self.world.keys(number, count)

    def undrafted(self, number: int, view: RequestView) -> int:
        """How many of a request's first tokens the draft may have no KV of: with a host tier those of the tree, for
        what comes back from the host comes without the draft's rows."""
        return view.shared if self.world.config.host_full_size else 0

    @property
    def draft_in_tree(self) -> bool:
        """Whether the draft has KV of all that the tree holds on the device."""
        return not self.world.config.host_full_size

    @cached_property
    def draft_contents(self) -> list[Rows]:
        """Raw rows of every layer of the draft's pool."""
        return [self.engine.raw_draft_contents(layer) for layer in range(len(self.world.config.layers))]
