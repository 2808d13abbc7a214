"""Swarm testing: each tape draws its own cache, its own subset of events and its own habits.

A tape in which everything is possible rarely goes deep anywhere (Groce et al., "Swarm Testing",
ISSTA 2012). Pools are small on purpose, and sizes come back: stale answers hide where slots,
storage and lengths are used again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....models.config import FULL, SWA, Config
from ...core.choices import Choices
from ...targets.base import Profile
from ..events_file import declared
from . import events as ev

__all__ = ["Habits", "draw_config", "draw_habits"]

_WEIGHTS: dict[str, int] = {
    ev.Alloc.kind: 10, ev.AllocExtend.kind: 10, ev.AllocDecode.kind: 6, ev.AllocExtendSwaTail.kind: 9,
    ev.Free.kind: 7, ev.FreeSwa.kind: 6, ev.FreeGroupBegin.kind: 2, ev.FreeGroupEnd.kind: 3,
    ev.SetMapping.kind: 6, ev.RegisterMapping.kind: 4, ev.Backup.kind: 3, ev.Restore.kind: 5, ev.Clear.kind: 2,
    ev.BeginForward.kind: 16, ev.WriteKv.kind: 24, ev.ReadKv.kind: 6, ev.Translate.kind: 8, ev.EndForward.kind: 4,
    ev.CpuCopy.kind: 4, ev.LoadCpuCopy.kind: 6, ev.Move.kind: 3,
}  # fmt: skip
"""How often an event is tried when it is in the swarm."""

_DECLARED_PERCENT = 80
"""Tapes that have a given event of somebody's file in the swarm: whoever declares one wants to see it."""

_ALWAYS = frozenset({ev.Alloc.kind, ev.AllocExtend.kind, ev.BeginForward.kind, ev.WriteKv.kind, ev.EndForward.kind})

_FOLLOWS = {
    ev.FreeGroupEnd.kind: ev.FreeGroupBegin.kind,
    ev.Restore.kind: ev.Backup.kind,
    ev.LoadCpuCopy.kind: ev.CpuCopy.kind,
}
"""Events that come with the event that makes them possible."""


@dataclass(frozen=True)
class Habits:
    """How one tape behaves.

    Attributes:
        length: events at most.
        kinds: kinds in the swarm.
        weights: weight of each kind.
        requests: number of requests in play.
        unit: token count that most allocations and spans have.
        storages: where batches' locs may live.
        partial: percentage of window evictions that name a part of a page.
        idle_ends: free groups are also ended when none is open.
        precomputed: percentage of forwards that come with a translation made up front.
    """

    length: int
    kinds: tuple[str, ...]
    weights: tuple[int, ...]
    requests: int
    unit: int
    storages: tuple[str, ...]
    partial: int
    idle_ends: bool
    precomputed: int


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
    unfit = {ev.Alloc.kind} if size > 1 else {ev.AllocExtend.kind, ev.AllocDecode.kind, ev.AllocExtendSwaTail.kind}
    kinds = []
    for kind in _WEIGHTS:
        if kind not in profile.events or kind in unfit:
            continue
        wanted = kind in _ALWAYS or choices.chance(60)
        if kind in _FOLLOWS:
            wanted = _FOLLOWS[kind] in kinds
        if wanted:
            kinds.append(kind)
    kinds += [kind for kind in declared() if choices.chance(_DECLARED_PERCENT)]
    storages = choices.pick((("reused", "view"), ("fresh", "reused", "view"), ("reused",), ("fresh",)))
    return Habits(
        length=choices.pick((16, 32, 64, 128)),
        kinds=tuple(kinds),
        weights=tuple(_WEIGHTS[kind] if kind in _WEIGHTS else declared()[kind].weight for kind in kinds),
        requests=choices.pick((2, 3, 4, 6)),
        unit=choices.pick((1, 2, 3) if size == 1 else (size, 2 * size, size + 1, 1, max(1, size - 1))),
        storages=storages,
        partial=choices.pick((0, 0, 0, 30)),
        idle_ends=choices.chance(15),
        precomputed=choices.pick((0, 30, 60)) if profile.precomputed else 0,
    )
