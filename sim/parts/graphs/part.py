"""Forwards go through captured graphs."""

from __future__ import annotations

from ....models.situations import GRAPH_SITUATIONS
from ..engine.checks import graphs
from ..engine.parts import LOCAL_PREFILL
from ..part import Axis, Part
from .events import GRAPH_EVENTS

__all__ = ["GRAPHS"]

GRAPHS = Part(
    Axis.EXECUTION,
    "captured graphs",
    holds=lambda features, host: "graphs" in features,
    events=GRAPH_EVENTS,
    checks=(graphs.CHECK,),
    situations=GRAPH_SITUATIONS,
    reachable=LOCAL_PREFILL.reachable,
)
