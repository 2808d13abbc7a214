"""What a check of disaggregated decode is given: an engine-level step, and the decode node's own state around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from ....models.config import Config
from ....models.decode_node import DecodeRequest, DecodeWorld, Stage
from ....models.disaggregation import Room
from ...core.event import Event
from ...targets.base import FreeSlots, Rows
from ...targets.disagg import DisaggTarget, Preallocated, Queues
from ...targets.engine import Copying, EngineTarget, NodeView, RequestView
from ..engine.step import EngineStep

__all__ = ["Before", "DisaggStep", "locks_seen", "room_of", "step_of", "without_host"]


@dataclass(frozen=True)
class Before:
    """The node's raw state before an event."""

    free: FreeSlots
    tree: list[NodeView]
    requests: dict[int, RequestView]
    mapping: list[int]
    saved: dict[int, tuple[bool, ...]]
    contents: list[Rows] = field(default_factory=list)
    copying: bool = False

    @classmethod
    def of(cls, node: DisaggTarget, layers: int = 0, copying: bool = False) -> Before:
        """The state as it is now, with the rows of the first `layers` layers; `copying` if transfers are queued."""
        contents = [node.raw_contents(layer) for layer in range(layers)]
        free, tree, requests = node.raw_free(), node.raw_tree(), node.raw_requests()
        return cls(free, tree, requests, node.raw_mapping(), node.raw_saved(), contents, copying)


@dataclass
class DisaggStep(EngineStep):
    """One event on a decode node after it has executed it.

    Attributes:
        node: the target.
        before: its state before the event, for a round of admission and a retraction.
        queue: the requests that a round chose from, in the order in which they came.
        asked: the request that the event enqueued, if it was one.
        enqueued: whether the queue took it.
        round: what a round of preallocation came to.
        resumed: the requests that a round resumed, in order; None if it was none.
        started: the requests that became a batch.
    """

    world: DecodeWorld
    node: DisaggTarget = field(kw_only=True)
    before: Before | None = None
    queue: tuple[int, ...] = ()
    asked: DecodeRequest | None = None
    enqueued: bool = False
    round: Preallocated | None = None
    resumed: list[int] | None = None
    started: tuple[int, ...] = ()

    @cached_property
    def queues(self) -> Queues:
        """Where each request stands after the event."""
        return self.node.raw_queues()

    @cached_property
    def room(self) -> Room:
        """What the pools hold after the event."""
        return room_of(self.world.config, self.free, self.tree)

    def origin(self, slot: int) -> str:
        """Whether a request that was just started has the slot for a token that had none when it was retracted."""
        for number in self.started:
            row = zip(self.requests[number].row, self.world.job(number).held, strict=False)
            if slot in [self.mapping[loc] for loc, held in row if not held]:
                return f", which request {number} resumed without"
        return ""

    def sent(self, event: Any, layer: int, slots: list[int], start: int, stop: int) -> None:
        """The sender wrote the KV of a span of a prompt at a layer; `event` is the `Transfer`."""

    @property
    def has_tree(self) -> bool:
        """Whether the node keeps a prefix tree."""
        return self.world.config.decode_tree

    def remember(self) -> Before:
        """Keep the raw state as it is now."""
        self.before = Before.of(self.node, copying=self.target.pending() > 0)
        return self.before

    def keys(self, request: DecodeRequest, tokens: int) -> list[int]:
        """The keys of the tree that the first `tokens` tokens of a prompt have."""
        return request.tokens[:tokens]

    @property
    def rules(self) -> object:
        """See `staleloc.sim.targets.disagg.Rules`."""
        return self.world.accounts.rules

    @property
    def lockable(self) -> dict[int, list[int]]:
        """Until it is started, a request may lock all that was found of its prompt, though it takes less of it."""
        world = self.world
        numbers = (*world.queues[Stage.TRANSFERRING], *world.queues[Stage.WAITING])
        return {number: world.job(number).tokens[: world.job(number).prompt] for number in numbers}

    @cached_property
    def copying(self) -> list[Copying]:
        """The queued transfers; none without a host tier."""
        return self.target.in_flight() if self.world.config.host_full_size else []

    @cached_property
    def host_contents(self) -> list[Rows]:
        """Raw rows of every layer's host slots; none without a host tier."""
        layers = range(len(self.world.config.layers)) if self.world.config.host_full_size else ()
        return [self.target.raw_host_contents(layer) for layer in layers]


def locks_seen(tree: Sequence[NodeView]) -> bool:
    """Whether it shows what locks the tree's SWA slots; an engine may keep that to itself (`NodeView.swa_locks`)."""
    return all(node.swa_locks >= 0 for node in tree)


def room_of(config: Config, free: FreeSlots, tree: Sequence[NodeView]) -> Room:
    """What the pools hold: what is free, and what the tree can give up because nothing locks it."""
    size = config.page_size
    return Room(
        full_free=len(free.full) * size,
        full_evictable=sum(len(node.tokens) for node in tree if node.full is not None and node.full_locks <= 0),
        swa_free=len(free.swa) * size,
        swa_evictable=sum(len(node.tokens) for node in tree if node.swa is not None and node.swa_locks <= 0),
        swa_size=config.swa_size,
    )


class _WithoutHost:
    """A decode node without a host tier: no transfer between device and host is ever queued."""

    def __init__(self, node: DisaggTarget) -> None:
        self._node = node

    def pending(self) -> int:
        """See `EngineTarget.pending`."""
        return 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)


def step_of(index: int, event: Event, world: DecodeWorld, node: DisaggTarget) -> DisaggStep:
    """The step of an event that is about to be played."""
    return DisaggStep(index, event, world, cast(EngineTarget, without_host(world.config, node)), node=node)


def without_host(config: Config, node: Any) -> Any:
    """A decode node as the checks of the engine level look at it: without a host tier, no transfer is ever queued."""
    return node if config.host_full_size else _WithoutHost(node)
