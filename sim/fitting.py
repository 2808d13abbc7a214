"""A cache's shape on a target that names its ways of caching differently."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from staleloc.models.config import Config
from staleloc.sim.targets.base import Profile

__all__ = ["fitted", "profile_of"]


def profile_of(config: Config, profiles: Iterable[Profile]) -> Profile | None:
    """The profile for a cache's level, features and pool, with its policy if there is one."""
    wanted = (config.level, config.features, config.pool)
    fitting = [it for it in profiles if (it.level, it.features, it.pool) == wanted]
    return next((it for it in fitting if config.policy in it.policies), fitting[0] if fitting else None)


def fitted(config: Config, profile: Profile) -> tuple[Config, list[str]]:
    """The cache with policy and dtype that the target has, and a line for each that was changed.

    Which pool and which pages a tape needs is never changed.
    """
    notes = []
    if config.policy not in profile.policies:
        notes.append(f"policy {config.policy} is played as {profile.policies[0]}")
        config = replace(config, policy=profile.policies[0])
    if config.dtype not in profile.dtypes:
        notes.append(f"dtype {config.dtype} is played as {profile.dtypes[0]}")
        config = replace(config, dtype=profile.dtypes[0])
    return config, notes
