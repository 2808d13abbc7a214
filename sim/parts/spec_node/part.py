"""Speculative decode on a decode node, the pair of parts."""

from __future__ import annotations

from typing import Any, cast

from ....models.config import Config
from ....models.situations import SPEC_NODE_SITUATIONS
from ....models.spec_node import SpecNodeWorld
from ...core.event import Event
from ...targets.base import Profile
from ...targets.engine import EngineTarget
from ..decode_node.step import without_host
from ..part import Axis, Part
from .situations import SpecNodeNoticer
from .step import SpecNodeStep

__all__ = ["SPEC_NODE"]


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


def _step(index: int, event: Event, world: SpecNodeWorld, target: Any) -> SpecNodeStep:
    return SpecNodeStep(index, event, world, cast(EngineTarget, without_host(world.config, target)), node=target)


SPEC_NODE = Part(
    Axis.DECODING,
    "speculative on a decode node",
    holds=lambda features, host: {"disagg", "spec"} <= features,
    situations=SPEC_NODE_SITUATIONS,
    reachable=_reachable,
    observers=(SpecNodeNoticer,),
    world=_world,
    step=_step,
)
