"""What workers and the command send each other, as JSON values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..core.divergence import Divergence, LocRow
from ..targets.base import Profile

__all__ = ["divergence_from_json", "divergence_to_json", "profile_from_json", "profile_to_json"]


def divergence_to_json(divergence: Divergence) -> dict[str, Any]:
    """Return a divergence as JSON values."""
    return asdict(divergence)


def divergence_from_json(values: dict[str, Any]) -> Divergence:
    """Return the divergence of these JSON values."""
    rows = tuple(LocRow(**row) for row in values["rows"])
    lists = {name: tuple(values.get(name, ())) for name in ("during", "state", "calls", "consequences")}
    return Divergence(**{**values, "rows": rows, **lists})


def profile_to_json(profile: Profile) -> dict[str, Any]:
    """Return a profile as JSON values."""
    excluded = {" ".join(parts): why for parts, why in profile.excluded.items()}
    return {**asdict(profile), "events": sorted(profile.events), "excluded": excluded}


def profile_from_json(values: dict[str, Any]) -> Profile:
    """Return the profile of these JSON values."""
    lists = {
        name: tuple(values[name])
        for name in (
            *("policies", "page_sizes", "more_pages", "dtypes", "features"),
            *("spec_versions", "spec_chains", "spec_treeless", "eviction_policies"),
        )
    }
    excluded = {tuple(parts.split()): why for parts, why in values["excluded"].items()}
    return Profile(**{**values, **lists, "events": frozenset(values["events"]), "excluded": excluded})
