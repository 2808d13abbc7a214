"""Divergences and profiles as JSON values, for the line between campaign and worker."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..core.divergence import Divergence, LocRow
from ..targets.base import Profile

__all__ = ["divergence_from_json", "divergence_to_json", "profile_from_json", "profile_to_json"]


def divergence_to_json(divergence: Divergence) -> dict[str, Any]:
    """A divergence as JSON values."""
    return asdict(divergence)


def divergence_from_json(values: dict[str, Any]) -> Divergence:
    """The inverse of `divergence_to_json`."""
    rows = tuple(LocRow(**row) for row in values["rows"])
    return Divergence(**{**values, "rows": rows, "during": tuple(values["during"]), "state": tuple(values["state"])})


def profile_to_json(profile: Profile) -> dict[str, Any]:
    """A profile as JSON values."""
    excluded = {" ".join(parts): why for parts, why in profile.excluded.items()}
    return {**asdict(profile), "events": sorted(profile.events), "excluded": excluded}


def profile_from_json(values: dict[str, Any]) -> Profile:
    """The inverse of `profile_to_json`."""
    lists = {
        name: tuple(values[name])
        for name in (
            *("policies", "page_sizes", "dtypes", "features"),
            *("spec_versions", "spec_chains", "spec_treeless"),
        )
    }
    excluded = {tuple(parts.split()): why for parts, why in values["excluded"].items()}
    return Profile(**{**values, **lists, "events": frozenset(values["events"]), "excluded": excluded})
