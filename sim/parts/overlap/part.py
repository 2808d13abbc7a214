"""Two batches in flight, as an overlap scheduler has them."""

from __future__ import annotations

from typing import Any

from ....models.config import Config
from ....models.overlap import OverlapWorld
from ....models.situations import OVERLAP_SITUATIONS
from ..part import Axis, Part
from .checks import check_held, check_last_token, check_results
from .events import OVERLAP_EVENTS
from .step import step_of

__all__ = ["OVERLAP"]


def _world(config: Config, target: Any) -> OverlapWorld:
    return OverlapWorld(config, target.aborts_chunked())


OVERLAP = Part(
    Axis.EXECUTION,
    "two batches in flight",
    holds=lambda features, host: "overlap" in features,
    events=OVERLAP_EVENTS,
    checks=(check_results, check_held, check_last_token),
    situations=OVERLAP_SITUATIONS,
    world=_world,
    step=step_of,
)
"""The results of a batch are processed while the next one runs."""
