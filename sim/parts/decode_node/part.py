"""A decode node of disaggregated serving: prompts come from a sender, slots are preallocated, requests retracted."""

from __future__ import annotations

from typing import Any

from ....models.config import Config
from ....models.decode_node import DecodeWorld
from ....models.situations import DISAGG_SITUATIONS
from ...targets.base import Profile
from ..part import Axis, Part
from .checks import evicted, lengths, masks, over_admission, prebuilt, queues, starvation, transfer
from .events import DISAGG_EVENTS
from .failure import failure
from .situations import Noticer
from .step import step_of

__all__ = ["DECODE_NODE"]


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
        *(queues.CHECK, masks.CHECK, transfer.CHECK, evicted.CHECK),
        *(over_admission.CHECK, starvation.CHECK, lengths.CHECK, prebuilt.CHECK),
    ),
    situations=DISAGG_SITUATIONS,
    reachable=_reachable,
    observers=(Noticer,),
    world=_world,
    step=step_of,
    failure=failure,
)
