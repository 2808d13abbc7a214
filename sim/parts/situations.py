"""Which situations a campaign can reach: what a target must be able to do for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...models.situations import (
    DISAGG_SITUATIONS,
    ENGINE_SITUATIONS,
    GRAPH_SITUATIONS,
    SITUATIONS,
    SPEC_SITUATIONS,
)
from ..targets.base import Profile

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


_HOSTED = frozenset(
    {
        *("host_hit", "remapped_load_back", "partial_mask", "node_evicted", "host_evicted", "host_short"),
        *("offload_in_flight", "freed_beside_flight", "forward_over_flight", "load_back_before_verify"),
    }
)
"""Engine-level situations that take a host tier."""


def possible(profiles: Iterable[Profile]) -> list[str]:
    """Situations that a campaign over these profiles can reach, in the order in which they are listed."""
    known = list(profiles)
    reachable = [
        name
        for names, within in _LISTS
        for name in names
        if any(within(name, profile) and name not in profile.unreachable for profile in known)
    ]
    return list(dict.fromkeys(reachable))


def _in_cache(situation: str, profile: Profile) -> bool:
    """Whether a cache driven this way call by call can come to it."""
    if profile.level != "allocator":
        return False
    groups = (group.split() for group in _NEEDS.get(situation, ()))
    also = _ALSO.get(situation)
    return all(not profile.events.isdisjoint(group) for group in groups) and (also is None or also(profile))


def _in_engine(situation: str, profile: Profile) -> bool:
    """The same for an engine that computes its prompts."""
    if profile.level != "engine" or "disagg" in profile.features:
        return False
    between = situation != "recovered_in_part" or "evict_window" in profile.events
    return between and (profile.host or situation not in _HOSTED)


def _in_graphs(situation: str, profile: Profile) -> bool:
    """The same for one that captures graphs."""
    return "graphs" in profile.features and _in_engine(situation, profile)


_AHEAD = frozenset(
    {
        *("prepared_after_commit", "prepared_before_commit", "verified_before_commit", "window_evicted_uncommitted"),
        *("surplus_at_finish", "surplus_at_abort", "left_uncommitted"),
    }
)
_OF_PAGES = frozenset({"page_copied", "accepted_across_pages", "rejected_in_page", "page_short_of_keys"})


def _speculating(situation: str, profile: Profile) -> bool:
    """The same for one that decodes speculatively."""
    needs = {
        **dict.fromkeys(_AHEAD, any(version != "v1" for version in profile.spec_versions)),
        **dict.fromkeys(_OF_PAGES, max(profile.page_sizes) > 1),
        "draft_slots_reused": "v1" in profile.spec_versions,
        "loaded_between": profile.host,
    }
    return "spec" in profile.features and needs.get(situation, True)


def _on_node(situation: str, profile: Profile) -> bool:
    """The same for a decode node."""
    needs: dict[str, bool] = {
        "prefix_fallback": profile.decode_tree,
        "fitted_with_prefix": profile.decode_tree,
        "evicted_to_admit": profile.decode_tree,
        "whole_preallocated": 1 in profile.page_sizes,
    }
    return "disagg" in profile.features and needs.get(situation, True)


_LISTS: tuple[tuple[dict[str, str], Callable[[str, Profile], bool]], ...] = (
    (SITUATIONS, _in_cache),
    (ENGINE_SITUATIONS, _in_engine),
    (GRAPH_SITUATIONS, _in_graphs),
    (SPEC_SITUATIONS, _speculating),
    (DISAGG_SITUATIONS, _on_node),
)
"""Situations, and whether a profile can come to one of them."""
