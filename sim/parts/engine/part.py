"""The plain value of each axis: prompts computed here, one token a step, without graphs, with a host tier or none."""

from __future__ import annotations

from ....models.situations import ENGINE_SITUATIONS, RESULT_SITUATIONS
from ...targets.base import Profile
from ..part import Axis, Part
from . import events as ee
from .checks import (
    check_admission,
    check_eviction,
    check_locks,
    check_overflow,
    check_races,
    check_refusal,
    check_rows,
    check_structure,
    check_values,
)
from .hits import check_hits
from .owners import check_owners
from .situations import Noticer, ResultsNoticer
from .tree_checks import check_ledgers, check_sanity

__all__ = ["HOST", "LOCAL_PREFILL", "PLAIN_DECODE", "REQUESTS"]

_HOSTED = frozenset(
    {
        *("host_hit", "remapped_load_back", "partial_mask", "node_evicted", "host_evicted", "host_short"),
        *("offload_in_flight", "freed_beside_flight", "forward_over_flight", "load_back_before_verify"),
    }
)
"""Situations that take a host tier."""


def _reachable(situation: str, profile: Profile) -> bool:
    if situation == "recovered_in_part" and "evict_window" not in profile.events:
        return False
    if situation == "policy_chose" and len(profile.eviction_policies) == 1:
        return False
    return profile.host or situation not in _HOSTED


_OF_A_TREE = frozenset({"recovered_in_group", "evicted_in_group"})
"""Situations of a batch's results that take a prefix tree."""


def _in_results(situation: str, profile: Profile) -> bool:
    if ee.Results.kind not in profile.events:
        return False
    has_tree = profile.decode_tree or "disagg" not in profile.features
    return has_tree or situation not in _OF_A_TREE


def _events_of(part: str) -> tuple[type[ee.EngineEvent], ...]:
    return tuple(event for event in ee.ENGINE_EVENTS if event.part == part)


REQUESTS = Part(
    Axis.REQUESTS,
    ee.REQUESTS,
    holds=lambda features, host: True,
    events=_events_of(ee.REQUESTS),
    checks=(
        *(check_overflow, check_structure, check_owners, check_values, check_rows, check_locks, check_ledgers),
        *(check_refusal, check_eviction, check_sanity, check_hits),
    ),
    situations=RESULT_SITUATIONS,
    reachable=_in_results,
    observers=(ResultsNoticer,),
)
"""What every tape of whole requests has."""

LOCAL_PREFILL = Part(
    Axis.ADMISSION,
    ee.LOCAL_PREFILL,
    holds=lambda features, host: features.isdisjoint({"disagg", "scheduler"}),
    events=_events_of(ee.LOCAL_PREFILL),
    checks=(check_admission,),
    situations=ENGINE_SITUATIONS,
    reachable=_reachable,
    observers=(Noticer,),
)
"""Prompts are computed where they are decoded."""

PLAIN_DECODE = Part(
    Axis.DECODING,
    ee.PLAIN_DECODE,
    holds=lambda features, host: features.isdisjoint({"spec", "scheduler"}),
    events=_events_of(ee.PLAIN_DECODE),
)
"""One token a step."""

HOST = Part(
    Axis.TIERS,
    ee.HOST,
    holds=lambda features, host: host,
    events=_events_of(ee.HOST),
    checks=(check_races,),
)
"""A host tier (HiCache)."""
