"""How every event of an engine-level tape is played, with captured graphs or without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staleloc.sim.engine.play import PLAY
from staleloc.sim.engine.step import EngineStep
from staleloc.sim.events import Event
from staleloc.sim.graphs.play import GRAPH_PLAY

__all__ = ["PLAYS"]

PLAYS: dict[type[Event], Callable[[EngineStep, Any], bool]] = {**PLAY, **GRAPH_PLAY}
"""Event type -> play it, if it applies."""
