"""A decode node of disaggregated serving: prompts come from a sender, slots are preallocated, requests retracted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ....models.config import Config
from ....models.decode_node import DecodeWorld
from ....models.situations import DISAGG_SITUATIONS, ENGINE_SITUATIONS
from ...core.divergence import Divergence
from ...targets.base import Profile
from ...targets.disagg import OverAdmission
from ..check import crash
from ..engine.situations import Noticer
from ..part import Axis, Part
from .checks import (
    check_evicted,
    check_lengths,
    check_masks,
    check_over_admission,
    check_prebuilt,
    check_queues,
    check_starvation,
    check_transfer,
)
from .events import DISAGG_EVENTS
from .situations import NodeNoticer
from .step import DisaggStep, step_of

__all__ = ["DECODE_NODE", "NODE_HOST"]

_HOSTED = (
    *("host_hit", "remapped_load_back", "node_evicted", "host_evicted", "host_short", "offload_in_flight"),
    *("freed_beside_flight", "forward_over_flight"),
)


def _failure(step: DisaggStep, error: BaseException) -> Divergence:
    """Over-admission if the engine found out by itself that it admitted too much, otherwise a crash."""
    if isinstance(error, OverAdmission):
        what = f"{step.event.kind} admitted a request that cannot be allocated: {error}"
        return replace(step.diverges(check_over_admission.name, what), check=check_over_admission.name)
    return crash(error, step.index, step.event, step.target.adapter)


def _reachable(situation: str, profile: Profile) -> bool:
    needs = {
        "prefix_fallback": profile.decode_tree,
        "fitted_with_prefix": profile.decode_tree,
        "evicted_to_admit": profile.decode_tree,
        "whole_preallocated": 1 in profile.page_sizes,
    }
    return needs.get(situation, True)


def _world(config: Config, target: Any) -> DecodeWorld:
    return DecodeWorld(config, target.rules())


DECODE_NODE = Part(
    Axis.ADMISSION,
    "decode node",
    holds=lambda features, host: "disagg" in features,
    events=DISAGG_EVENTS,
    checks=(
        *(check_queues, check_masks, check_transfer, check_evicted),
        *(check_over_admission, check_starvation, check_lengths, check_prebuilt),
    ),
    situations=DISAGG_SITUATIONS,
    reachable=_reachable,
    observers=(NodeNoticer,),
    world=_world,
    step=step_of,
    failure=_failure,
)


NODE_HOST = Part(
    Axis.TIERS,
    "host tier of a decode node",
    holds=lambda features, host: host and "disagg" in features,
    situations={name: ENGINE_SITUATIONS[name] for name in _HOSTED},
    reachable=lambda situation, profile: situation != "forward_over_flight" or "spec" not in profile.features,
    observers=(Noticer,),
)
