"""Configs with pinned fields: a config is drawn as always, and what depends on a pinned field is drawn to fit it.

A field that other draws depend on (page size, window, pool sizes, host tier, draft) is set where it is drawn, with
`Profile.pinned`. The others are set here, when everything is drawn. The draws themselves are made in any case, so the
choices after them are those of a tape without pins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...models.config import MAX_CONTEXT, TOKENS_WITHOUT_LIMIT, Config, ConfigError
from ..targets.base import HOST, Profile, TargetError, shown_pins
from .legality import unfit

__all__ = ["draw_pinned", "fit_pools", "reach"]

_TRIES = 50
"""Configs that are drawn at most. Only rare pins, such as a pool that is smaller than a draft, do not fit at once."""

_FREE = (
    *("layers", "window", "need_sort", "context_len", "host_full_size", "host_swa_size", "write_policy"),
    *("eviction_policy", "reserved_decode", "chunk", "max_prefill", "new_token_ratio"),
)
"""Fields that no other field of a config depends on, once the pools are there."""


def draw_pinned(profile: Profile, draw: Callable[[], Config]) -> Config:
    """A config with the pinned fields of a profile.

    Args:
        draw: draws a config for a target with this profile.

    Raises:
        TargetError: no config was found that has the pinned fields and keeps the rules of a config.
    """
    if not profile.pins:
        return draw()
    reasons = []
    for _ in range(_TRIES):
        config = _set_free(draw(), profile)
        reason = _why_not(config, profile)
        if reason is None:
            return config
        reasons.append(reason)
    where = f"the {profile.level} level" + (f" with {' and '.join(profile.features)}" if profile.features else "")
    raise TargetError(
        f"no config at {where} has {shown_pins(tuple(profile.pins.items()))}: {_commonest(reasons)}; change or leave "
        "out one of them"
    )


_PRIORITIES = (0, 2, 1)
"""Those of requests if the eviction policy is pinned to their order."""


def _set_free(config: Config, profile: Profile) -> Config:
    pinned = {name: profile.pins[name] for name in _FREE if name in profile.pins}
    if pinned.get("eviction_policy") == "priority":
        pinned["priorities"] = _PRIORITIES
    return replace(config, **pinned)


def _why_not(config: Config, profile: Profile) -> str | None:
    """Why a config is not one with the pinned fields, or None."""
    try:
        config.check()
    except ConfigError as error:
        return str(error)
    for name, value in profile.pins.items():
        had = config.host_full_size > 0 if name == HOST else getattr(config, name)
        if had != value:
            wanted, drawn = (shown_pins(((name, it),)) for it in (value, had))
            return f"{wanted} does not go with the others, which lead to {drawn}"
    return unfit(config, profile)


def _commonest(reasons: Sequence[str]) -> str:
    return max(dict.fromkeys(reasons), key=reasons.count)


def reach(profile: Profile, page_size: int, window: int) -> int:
    """Tokens that a request must come to so that it leaves a window and two pages behind; 0 if it can anyway.

    Drawn windows are short, so only a pinned page size or window makes it differ from 0. A window that is longer than
    the longest context of a tape is never left.
    """
    tokens = window + 2 * page_size
    if profile.level != "engine" or profile.pins.keys().isdisjoint({"page_size", "window"}):
        return 0
    return tokens if TOKENS_WITHOUT_LIMIT < tokens <= MAX_CONTEXT else 0


def fit_pools(
    profile: Profile, page_size: int, window: int, full_pages: int, swa_pages: int, step: int = 0
) -> tuple[int, int]:
    """Pages of both pools, with their pinned sizes and room for what `reach` asks for. Without pins they are as drawn.

    Args:
        step: tokens of a request beyond those that are computed, at most.
    """
    pins = profile.pins
    if not pins:
        return full_pages, swa_pages
    needed = reach(profile, page_size, window)
    if needed:
        full_pages = max(full_pages, -(-(needed + step) // page_size) + 1)
        swa_pages = max(swa_pages, min(full_pages, -(-(window + step) // page_size) + 2))
    if "full_size" in pins:
        full_pages = pins["full_size"] // page_size
        swa_pages = min(swa_pages, full_pages)
    if "swa_size" in pins:
        swa_pages = pins["swa_size"] // page_size
        full_pages = max(full_pages, 0 if "full_size" in pins else swa_pages)
    return full_pages, swa_pages
