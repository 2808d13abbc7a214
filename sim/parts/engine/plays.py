"""How every event of an engine-level tape is played, with captured graphs or without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.event import Event
from ..graphs.play import GRAPH_PLAY
from .play import PLAY
from .step import EngineStep

__all__ = ["PLAYS"]

PLAYS: dict[type[Event], Callable[[EngineStep, Any], bool]] = {**PLAY, **GRAPH_PLAY}
"""Event type -> play it, if it applies."""
