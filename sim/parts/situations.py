"""Which situations a campaign can reach: what a target must be able to do for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...models.situations import SITUATIONS
from ..targets.base import Profile
from .part import Part
from .registry import PARTS, parts_of_profile

__all__ = ["possible"]

_UNMAPPED = "free_swa alloc_extend_swa_tail"

_NEEDS: dict[str, tuple[str, ...]] = {
    "tail_allocated": ("alloc_extend_swa_tail",),
    "tail_over_recycled": ("alloc_extend_swa_tail",),
    "window_evicted": ("free_swa",),
    "partial_page_evicted": ("free_swa",),
    "group_deferred": ("free_group_begin", "free free_swa"),
    "remapped_in_group": ("free_group_begin", "free_swa", "set_mapping"),
    "idle_group_end": ("free_group_end",),
    "mapped_in_place": ("set_mapping", _UNMAPPED),
    "mapping_replaced": ("register_mapping",),
    "restored": ("backup", "restore"),
    "cleared": ("clear",),
    "changed_mid_forward": ("free free_swa set_mapping register_mapping clear",),
    "written_after_change": ("free_swa set_mapping register_mapping",),
    "asked_after_change": ("translate", "free_swa set_mapping register_mapping"),
    "kept_asked_after_change": ("translate",),
    "window_read": ("read_kv",),
    "partial_mask": ("cpu_copy", _UNMAPPED),
    "unfilled_hole": ("cpu_copy", "load_cpu_copy", _UNMAPPED),
    "row_skipped": ("cpu_copy", "load_cpu_copy", _UNMAPPED),
    "loaded_elsewhere": ("cpu_copy", "load_cpu_copy"),
    "moved": ("move",),
}
"""Situation -> kinds of events it takes, one of each group; a situation that is not listed takes no special ones."""

_CACHED = frozenset({"side_channel", "memo", "first_layer"})


def _has_paged_pool(profile: Profile) -> bool:
    return max(profile.page_sizes) > 1


def _translates_late(profile: Profile) -> bool:
    return not profile.per_forward


def _shows_hits(profile: Profile) -> bool:
    """The builtin's caching policies count their hits, and so does the adapter of the DeepSeek-V4 pool."""
    return not _CACHED.isdisjoint(profile.policies) or profile.all_swa


_ALSO: dict[str, Callable[[Profile], bool]] = {
    "tail_allocated": _has_paged_pool,
    "tail_over_recycled": _has_paged_pool,
    "partial_page_evicted": _has_paged_pool,
    "changed_mid_forward": _translates_late,
    "written_after_change": _translates_late,
    "asked_after_change": _translates_late,
    "cache_hit": _shows_hits,
    "precomputed": lambda profile: profile.precomputed,
}
"""Situation -> what else it takes."""


def possible(profiles: Iterable[Profile]) -> list[str]:
    """Situations that a campaign over these profiles can reach, in the order in which they are listed."""
    known = list(profiles)
    at_allocator = [name for name in SITUATIONS if any(_in_cache(name, profile) for profile in known)]
    with_requests = [
        name for part in PARTS for name in part.situations if any(_with_part(part, name, profile) for profile in known)
    ]
    return list(dict.fromkeys([*at_allocator, *with_requests]))


def _in_cache(situation: str, profile: Profile) -> bool:
    """Whether a cache driven this way call by call can come to it."""
    if profile.level != "allocator" or situation in profile.unreachable:
        return False
    groups = (group.split() for group in _NEEDS.get(situation, ()))
    also = _ALSO.get(situation)
    return all(not profile.events.isdisjoint(group) for group in groups) and (also is None or also(profile))


def _with_part(part: Part, situation: str, profile: Profile) -> bool:
    """Whether a tape with this part can come to it on a target driven this way."""
    if profile.level != "engine" or part not in parts_of_profile(profile):
        return False
    return part.reachable(situation, profile) and situation not in profile.unreachable
