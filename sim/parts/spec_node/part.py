"""Speculative decode on a decode node, the pair of parts: a step's state, situations, and the part itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from ....models.config import Config
from ....models.decode_node import DecodeRequest, Stage
from ....models.situations import SPEC_NODE_SITUATIONS
from ....models.spec_node import SpecNodeWorld
from ....models.speculative import key_numbers
from ...core.event import Event
from ...targets.base import Profile
from ...targets.engine import EngineTarget, RequestView
from ...targets.speculative import SpecNodeTarget
from ..decode_node.events import Retract
from ..decode_node.step import DisaggStep, without_host
from ..part import Axis, Observer, Part
from ..speculative.step import SpecStep

__all__ = ["SPEC_NODE"]


@dataclass
class _SpecNodeStep(SpecStep, DisaggStep):
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


class _Noticer(Observer):
    """Counts what only the two parts together can bring about."""

    def __init__(self, world: SpecNodeWorld) -> None:
        self._world = world
        self._resumed: set[int] = set()

    def before(self, step: _SpecNodeStep) -> None:
        """A request is about to be retracted: does it hold slots ahead of what is committed?"""
        event, world = step.event, self._world
        if isinstance(event, Retract) and world.may_retract(event.request):
            request = world.speculating(event.request)
            if world.config.pages(request.committed) < world.config.pages(request.allocated):
                world.saw("surplus_at_retract")

    def look(self, step: _SpecNodeStep) -> None:
        """Count the situations that this event brought about."""
        world = self._world
        self._resumed.update(step.resumed or ())
        self._resumed &= world.requests.keys()
        for number in step.accepted:
            world.saw("speculated_after_transfer")
            if number in self._resumed:
                world.saw("speculated_after_resume")
            if world.accounts.uses_tail and world.accounts.tail(world.job(number).prompt) < world.job(number).prompt:
                world.saw("tail_speculated")
        if step.round is not None and step.round.admitted:
            self._admitted(step)

    def _admitted(self, step: _SpecNodeStep) -> None:
        world = self._world
        assert step.round is not None
        running = [world.speculating(number) for number in world.queues[Stage.RUNNING]]
        if any(request.allocated > request.computed for request in running):
            world.saw("admitted_beside_surplus")
        if world.config.bigram and any(item.cached for item in step.round.admitted):
            world.saw("paired_with_prefix")


def _reachable(situation: str, profile: Profile) -> bool:
    needs = {
        "paired_with_prefix": profile.decode_tree,
        "tail_speculated": max(profile.page_sizes) > 1,
        "surplus_at_retract": any(version != "v1" for version in profile.spec_versions),
        "admitted_beside_surplus": any(version != "v1" for version in profile.spec_versions),
    }
    return needs.get(situation, True)


def _world(config: Config, target: Any) -> SpecNodeWorld:
    return SpecNodeWorld(config, target.rules(), target.spec_rules())


def _step(index: int, event: Event, world: SpecNodeWorld, target: Any) -> _SpecNodeStep:
    return _SpecNodeStep(index, event, world, cast(EngineTarget, without_host(world.config, target)), node=target)


SPEC_NODE = Part(
    Axis.DECODING,
    "speculative on a decode node",
    holds=lambda features, host: {"disagg", "spec"} <= features,
    situations=SPEC_NODE_SITUATIONS,
    reachable=_reachable,
    observers=(_Noticer,),
    world=_world,
    step=_step,
)
