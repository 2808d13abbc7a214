"""A scheduler that admits by its own budgets: the release's own admission, chunks, retraction and window eviction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ....models.config import Config
from ....models.scheduler import SchedulerWorld
from ....models.situations import SCHEDULER_SITUATIONS
from ...targets.base import Profile
from ..engine.situations import Noticer as NodeNoticer
from ..part import Axis, Part
from .checks import (
    check_holders,
    check_over_admission,
    check_rounds,
    check_starvation,
    check_starvation_between_chunks,
    check_starvation_without_cache,
    check_starvation_without_chunks,
)
from .events import SCHEDULER_EVENTS
from .situations import HOSTED, Noticer
from .step import step_of

__all__ = ["SCHEDULER"]


def _reachable(situation: str, profile: Profile) -> bool:
    return profile.host or situation not in HOSTED


def _world(config: Config, target: Any) -> SchedulerWorld:
    return SchedulerWorld(config, target.aborts_chunked())


def _simpler_configs(config: Config) -> Iterator[Config]:
    """No chunks, or smaller ones; no prefix tree; plain budgets."""
    size = config.page_size
    for chunk in (0, size, 2 * size, 4 * size):
        if chunk < config.chunk:
            yield replace(config, chunk=chunk)
    if config.prefix_cache and not config.host_full_size:
        yield replace(config, prefix_cache=False)
    if config.max_prefill != config.full_size:
        yield replace(config, max_prefill=config.full_size)
    if config.new_token_ratio:
        yield replace(config, new_token_ratio=0)
    for window in (1, 2, size, 2 * size):
        if window < config.window:
            yield replace(config, window=window)


SCHEDULER = Part(
    Axis.ADMISSION,
    "scheduler",
    holds=lambda features, host: "scheduler" in features,
    events=SCHEDULER_EVENTS,
    checks=(
        *(check_rounds, check_holders, check_over_admission, check_starvation, check_starvation_between_chunks),
        *(check_starvation_without_cache, check_starvation_without_chunks),
    ),
    situations=SCHEDULER_SITUATIONS,
    reachable=_reachable,
    observers=(NodeNoticer, Noticer),
    world=_world,
    step=step_of,
    simpler_configs=_simpler_configs,
)
"""Who is admitted, with how many tokens, and who is retracted is the target's own decision."""
