"""What a check of speculative decode on a decode node is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....models.decode_node import DecodeRequest, Stage
from ....models.spec_node import SpecNodeWorld
from ....models.speculative import key_numbers
from ...targets.engine import RequestView
from ...targets.speculative import SpecNodeTarget
from ..decode_node.step import DisaggStep
from ..speculative.part import Extending

__all__ = ["SpecNodeStep"]


@dataclass
class SpecNodeStep(Extending, DisaggStep):
    """One event on a decode node whose requests speculate, after the target has executed it."""

    world: SpecNodeWorld

    @property
    def rules(self) -> object:
        """See `staleloc.sim.targets.disagg.Rules`."""
        return self.world.accounts.rules

    @property
    def lockable(self) -> dict[int, list[int]]:
        """Until it is started, a request may lock all that was found of its prompt, in keys of the tree."""
        world = self.world
        waiting = (*world.queues[Stage.TRANSFERRING], *world.queues[Stage.WAITING])
        return {number: self.keys(world.job(number), world.job(number).prompt) for number in waiting}

    @property
    def draft_in_tree(self) -> bool:
        """A request that resumed inserts tokens of which the draft has no KV."""
        return False

    def keys(self, request: DecodeRequest, tokens: int) -> list[int]:
        """The keys of the tree that the first `tokens` tokens of a prompt have."""
        return key_numbers(request.tokens[:tokens], None, self.world.config.bigram)

    def undrafted(self, number: int, view: RequestView) -> int:
        """How many of a request's first tokens the draft may have no KV of: those of the tree, and those that came
        back from the CPU."""
        return max(view.shared, self.world.speculating(number).undrafted)

    def sent(self, event: Any, layer: int, slots: list[int], start: int, stop: int) -> None:
        """The sender writes the draft's KV of the same tokens; that of the last one depends on the first output token
        where keys are pairs."""
        world = self.world
        prefixes = world.requests[event.request].prefixes
        if world.config.bigram:
            prefixes = [*prefixes[1:], *world.tags.prefixes([event.token], prefixes[-1])]
        tags = [world.tags.tag(prefix, layer) for prefix in prefixes[start:stop]]
        node: SpecNodeTarget = self.node  # type: ignore[assignment]
        node.receive_draft(layer, slots, tags)
