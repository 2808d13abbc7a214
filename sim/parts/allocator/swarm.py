"""Swarm testing: each tape draws its own cache, its own subset of events and its own habits.

A tape in which everything is possible rarely goes deep anywhere (Groce et al., "Swarm Testing",
ISSTA 2012). Pools are small on purpose, and sizes come back: stale answers hide where slots,
storage and lengths are used again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....models.config import FULL, SWA, Config
from ...core.choices import Choices
from ...targets.base import Profile
from ..hooks import declared
from .draws import Habits
from .events import EVENTS

__all__ = ["draw_config", "draw_habits"]

_DECLARED_PERCENT = 80
"""Tapes that have a given event of somebody's file in the swarm: whoever declares one wants to see it."""


def draw_config(choices: Choices, profiles: Sequence[Profile]) -> tuple[Config, Profile]:
    """A small cache that one of the profiles can hold."""
    profile = choices.pick(profiles)
    size = choices.pick(profile.page_sizes)
    full_pages = choices.pick((2, 3, 4, 6, 8, 12) if size > 1 else (3, 4, 6, 8, 12, 24))
    swa_pages = max(2, full_pages - choices.pick((0, 1, full_pages // 4, full_pages // 2)))
    if profile.all_swa:
        layers: tuple[str, ...] = (SWA,) * choices.pick((2, 3))
    else:
        layers = choices.pick(((FULL, SWA), (SWA, SWA), (FULL, SWA, SWA), (SWA, FULL, SWA)))
    config = Config(
        pool=profile.pool,
        policy=choices.pick(profile.policies),
        page_size=size,
        full_size=full_pages * size,
        swa_size=swa_pages * size,
        layers=layers,
        window=max(1, choices.pick((size, 2 * size, size // 2, 4))),
        need_sort=choices.chance(40),
        dtype=choices.pick(profile.dtypes),
    )
    return config, profile


def draw_habits(choices: Choices, config: Config, profile: Profile) -> Habits:
    """A subset of the profile's events, with a habit for each free decision."""
    size = config.page_size
    wanted: list[Any] = []
    for event in EVENTS:
        if event.kind not in profile.events or not event.fits_pages(size):
            continue
        drawn = event.always or choices.chance(60)
        if drawn if event.follows is None else event.follows in wanted:
            wanted.append(event)
    wanted += [event for event in declared("allocator").values() if choices.chance(_DECLARED_PERCENT)]
    storages = choices.pick((("reused", "view"), ("fresh", "reused", "view"), ("reused",), ("fresh",)))
    return Habits(
        length=choices.pick((16, 32, 64, 128)),
        events=tuple(wanted),
        weights=tuple(event.weight for event in wanted),
        requests=choices.pick((2, 3, 4, 6)),
        unit=choices.pick((1, 2, 3) if size == 1 else (size, 2 * size, size + 1, 1, max(1, size - 1))),
        storages=storages,
        partial=choices.pick((0, 0, 0, 30)),
        idle_ends=choices.chance(15),
        precomputed=choices.pick((0, 30, 60)) if profile.precomputed else 0,
    )
