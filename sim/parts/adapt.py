"""A cache's shape on a target that names its ways of caching differently."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...models.config import Config
from ..targets.base import Profile

__all__ = ["fitted", "lacking", "profile_of", "same_code"]

_OTHER_CODE = {"swa-radix": ("SGLang's legacy tree SWARadixCache", "up to 0.5.20")}
"""Policies that are another implementation and not another way of caching, and which releases have it: what a tape
shows on that code says nothing about any other."""


def profile_of(config: Config, profiles: Iterable[Profile]) -> Profile | None:
    """The profile for a cache's level, features and pool, with its policy if there is one; see `lacking`."""
    wanted = (config.level, config.features, config.pool)
    fitting = [it for it in profiles if (it.level, it.features, it.pool) == wanted]
    if config.host_full_size:
        fitting = [it for it in fitting if it.host] or fitting
    same = next((it for it in fitting if config.policy in it.policies), None)
    if same is not None or config.policy in _OTHER_CODE:
        return same
    return fitting[0] if fitting else None


def same_code(one: Config, other: Config) -> bool:
    """Whether two caches are of the same implementation, whatever their policies are called."""
    return one.policy == other.policy or _OTHER_CODE.keys().isdisjoint({one.policy, other.policy})


def lacking(config: Config, profiles: Iterable[Profile], name: str) -> str | None:
    """Why a tape must not be played with another policy where its own is missing, or None; `name` is the target's."""
    if config.policy not in _OTHER_CODE or any(config.policy in profile.policies for profile in profiles):
        return None
    what, where = _OTHER_CODE[config.policy]
    return (
        f"it is for {what} (policy {config.policy}), which {name} does not have; play it on a release that has it "
        f"({where}), or give the tape another policy"
    )


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
