"""Speculative decode: drafts take slots, and what is accepted of them is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ....models.config import Config
from ....models.situations import SPEC_SITUATIONS
from ....models.speculative import SpecWorld
from ...targets.base import Profile
from ..part import Axis, Part
from .checks import check_drafts, check_keys, check_leftovers, check_lengths, check_reads, check_window
from .events import SPEC_EVENTS
from .situations import SpecNoticer
from .step import SpecStep

__all__ = ["SPECULATIVE"]

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


def _world(config: Config, target: Any) -> SpecWorld:
    return SpecWorld(config, target.spec_rules())


def _simpler_drafts(config: Config) -> Iterator[Config]:
    """Caches whose drafts are smaller: a chain of one token, a shorter or narrower tree, fewer nodes; no bigrams."""
    if "spec" not in config.features:
        return
    steps, topk, nodes = config.spec_steps, config.spec_topk, config.spec_draft_tokens
    for shape in ((1, 1, 2), (steps, 1, steps + 1), (steps - 1, topk, nodes), (steps, topk - 1, nodes)):
        most = 1 + shape[0] * shape[1]
        smaller = (shape[0], shape[1], most if shape[1] == 1 else min(shape[2], most))
        if min(smaller) >= 1 and smaller != (steps, topk, nodes):
            yield _shaped(config, *smaller)
    if topk > 1 and nodes > 2:
        yield _shaped(config, steps, topk, nodes - 1)
    if config.bigram:
        yield replace(config, bigram=False)


def _shaped(config: Config, steps: int, topk: int, nodes: int) -> Config:
    return replace(config, spec_steps=steps, spec_topk=topk, spec_draft_tokens=nodes)


SPECULATIVE = Part(
    Axis.DECODING,
    "speculative",
    holds=lambda features, host: "spec" in features,
    events=SPEC_EVENTS,
    checks=(check_keys, check_lengths, check_leftovers, check_window, check_reads, check_drafts),
    situations=SPEC_SITUATIONS,
    reachable=_reachable,
    observers=(SpecNoticer,),
    world=_world,
    step=SpecStep,
    simpler_configs=_simpler_drafts,
)
