"""Forwards go through captured graphs."""

from __future__ import annotations

from ....models.situations import GRAPH_SITUATIONS
from ...targets.base import Profile
from ..engine.checks import check_graphs
from ..engine.part import LOCAL_PREFILL
from ..part import Axis, Part
from .events import GRAPH_EVENTS

__all__ = ["GRAPHS"]

_OF_DRAFTS = frozenset({"ran_draft", "ran_speculative", "accepted_all", "accepted_some", "accepted_none"})
_OF_BATCHES = frozenset({"ran_standard", "ran_breakable", "no_graph_fits"})
_OF_PREFILL = frozenset({"ran_piecewise", "load_back_before_verify", "verified_elsewhere"})


def _reachable(situation: str, profile: Profile) -> bool:
    if "disagg" not in profile.features:
        return LOCAL_PREFILL.reachable(situation, profile)
    elsewhere = _OF_PREFILL | (_OF_BATCHES if "spec" in profile.features else _OF_DRAFTS)
    return situation not in elsewhere


GRAPHS = Part(
    Axis.EXECUTION,
    "captured graphs",
    holds=lambda features, host: "graphs" in features,
    events=GRAPH_EVENTS,
    checks=(check_graphs,),
    situations=GRAPH_SITUATIONS,
    reachable=_reachable,
)
