"""Speculative decode: drafts take slots, and what is accepted of them is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....models.config import Config
from ....models.situations import SPEC_SITUATIONS
from ....models.speculative import SpecWorld
from ...targets.base import Profile
from ..part import Axis, Part
from .checks import drafts, keys, leftovers, lengths, reads, window
from .drafting import extend_draft
from .events import SPEC_EVENTS
from .simplify import simpler_drafts
from .situations import SpecNoticer
from .step import SpecStep

__all__ = ["SPECULATIVE", "Extending"]

_AHEAD = frozenset(
    {
        *("prepared_after_commit", "prepared_before_commit", "verified_before_commit", "window_evicted_uncommitted"),
        *("surplus_at_finish", "surplus_at_abort", "left_uncommitted"),
    }
)
_OF_PAGES = frozenset({"page_copied", "accepted_across_pages", "rejected_in_page", "page_short_of_keys"})


def _reachable(situation: str, profile: Profile) -> bool:
    needs = {
        **dict.fromkeys(_AHEAD, any(version != "v1" for version in profile.spec_versions)),
        **dict.fromkeys(_OF_PAGES, max(profile.page_sizes) > 1),
        "page_short_of_keys": max(profile.page_sizes) > 1 and "disagg" not in profile.features,
        "draft_slots_reused": "v1" in profile.spec_versions,
        "loaded_between": profile.host and "disagg" not in profile.features,
        "admitted_between": "disagg" not in profile.features,
    }
    return needs.get(situation, True)


@dataclass
class Extending(SpecStep):
    """A step in which the draft computes what the target has computed of a prompt."""

    def extended(self, numbers: list[int]) -> None:
        """See `EngineStep.extended`."""
        extend_draft(self, numbers)


def _world(config: Config, target: Any) -> SpecWorld:
    return SpecWorld(config, target.spec_rules())


SPECULATIVE = Part(
    Axis.DECODING,
    "speculative",
    holds=lambda features, host: "spec" in features,
    events=SPEC_EVENTS,
    checks=(keys.CHECK, lengths.CHECK, leftovers.CHECK, window.CHECK, reads.CHECK, drafts.CHECK),
    situations=SPEC_SITUATIONS,
    reachable=_reachable,
    observers=(SpecNoticer,),
    world=_world,
    step=Extending,
    simpler_configs=simpler_drafts,
)
