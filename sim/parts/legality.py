"""Whether a target can play a tape, and as what: its cache, its events, and the contracts they keep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ...models.config import FULL, Config
from ..core.tape import Tape
from ..targets.base import Profile
from .allocator.ledger import Ledger

__all__ = ["find_violation", "fitted", "lacking", "profile_of", "same_code", "unfit"]

_OTHER_CODE = {"swa-radix": ("SGLang's legacy tree SWARadixCache", "up to 0.5.20")}
"""Policies that are another implementation and not another way of caching, and which releases have it: what a tape
shows on that code says nothing about any other."""


def unfit(config: Config, profile: Profile) -> str | None:
    """Why a target with this profile cannot hold such a cache, or None."""
    if config.level != profile.level:
        return f"this is an {config.level}-level tape, and the profile is of the {profile.level} level"
    if config.pool != profile.pool or config.policy not in profile.policies:
        known = ", ".join(profile.policies)
        return (
            f"it wants pool {config.pool} with policy {config.policy}, and this target has {profile.pool} with {known}"
        )
    if config.page_size not in profile.all_pages:
        return f"it wants page size {config.page_size}, and this target's {config.pool} pool has {profile.page_sizes}"
    if config.dtype not in profile.dtypes:
        return f"it wants dtype {config.dtype}, and this target's {config.pool} pool has {', '.join(profile.dtypes)}"
    if profile.all_swa and FULL in config.layers:
        return f"it has full-attention layers, and every layer of this target's {config.pool} pool is an SWA layer"
    if config.decode_tree and not profile.decode_tree:
        why = f": {profile.missing['evict']}" if "evict" in profile.missing else ""
        return f"its decode node keeps a prefix tree, and this target's does not{why}"
    if config.eviction_policy not in profile.eviction_policies:
        known = ", ".join(profile.eviction_policies)
        return f"its tree evicts by the policy {config.eviction_policy}, and this target's by {known}"
    unknown = [name for name in config.switches if name not in profile.switches]
    if unknown:
        return f"it wants the switch {unknown[0]}, and this target has {', '.join(profile.switches) or 'none'}"
    return _unfit_host(config, profile)


def _unfit_host(config: Config, profile: Profile) -> str | None:
    if not config.host_full_size:
        return None
    if not profile.host:
        return "it has a host tier, and this target has none"
    sides = (("full", config.host_full_size, config.full_size), ("SWA", config.host_swa_size, config.swa_size))
    for side, host, device in sides:
        if host <= device and not profile.small_host:
            return (
                f"its host has {host} {side} slots for {device} on the device, and this target's host pools must be "
                "larger than its device pools"
            )
    return None


def _first_incapable(tape: Tape, profile: Profile) -> tuple[Profile, None] | tuple[None, str]:
    """The same for the engine level, where an event that does not apply is skipped."""
    for number, event in enumerate(tape.events, 1):
        why = event.lacks(profile)
        if why is not None:
            return None, f"event {number} ({event.kind}) cannot be played: {why}"
    return profile, None


def find_violation(
    tape: Tape, profiles: Sequence[Profile], name: str = "this target"
) -> tuple[Profile, None] | tuple[None, str]:
    """The profile under which a tape may be played, or why there is none; `name` is the target's in the reason."""
    level, features = tape.config.level, tape.config.features
    levels = sorted({profile.level for profile in profiles})
    if level not in levels:
        return None, f"this is an {level}-level tape; {name} can be driven at the {' and '.join(levels)} level only"
    profiles = [profile for profile in profiles if (profile.level, profile.features) == (level, features)]
    if not profiles:
        return None, f"this is a tape with {' and '.join(features) or 'no features'}, and {name} cannot be driven so"
    other_code = lacking(tape.config, profiles, name)
    if other_code is not None:
        return None, other_code
    reasons = [unfit(tape.config, profile) for profile in profiles]
    if None not in reasons:
        return None, "; ".join(reason for reason in reasons if reason)
    profile = profiles[reasons.index(None)]
    if profile.level == "engine":
        return _first_incapable(tape, profile)
    ledger = Ledger(tape.config, profile.per_forward)
    events: Sequence[Any] = tape.events
    for number, event in enumerate(events, 1):
        reason = event.lacks(profile) or event.violation(ledger)
        if reason is not None:
            return None, f"event {number} ({event.kind}) cannot be played: {reason}"
        ledger.apply(event)
    return profile, None


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
