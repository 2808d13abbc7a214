"""Pools for the tapes of a decode node: tiny ones, so that one or the other runs short, and now and then roomy ones."""

from __future__ import annotations

from dataclasses import replace

from ....models.config import FULL, SWA, WRITE_POLICIES, Config
from ....models.disaggregation import CLIP_NEW_TOKENS
from ...core.choices import Choices
from ...targets.base import Profile
from ..engine.generate import host_pages

__all__ = ["draw_config", "is_roomy", "tail_fits"]


def draw_config(choices: Choices, profile: Profile) -> Config:
    """A cache for a node driven this way."""
    small = tuple(size for size in profile.page_sizes if 1 < size < 16)
    size = choices.pick(small) if small and choices.chance(70) else choices.pick(profile.page_sizes)
    window = choices.pick((1, max(1, size - 1), size, size, size + 1, 2 * size, 2 * size, 8 * size))
    narrow = choices.chance(25)
    if choices.chance(5):  # room for all that admission looks ahead
        size = max(it for it in profile.page_sizes if it <= 16)
        full_pages = swa_pages = (CLIP_NEW_TOKENS + choices.pick((512, 1024))) // size
    else:
        full_pages = choices.pick({1: (12, 16, 24, 32), 2: (8, 12, 16, 24)}.get(size, (4, 6, 8, 12)))
        tails = choices.pick((1, 2, 3)) * (window // size + 2) if size > 1 else full_pages // 2
        swa_pages = min(full_pages, choices.pick((tails, tails + 1, full_pages)))
        if narrow:  # no room for a whole window
            swa_pages = min(swa_pages, max(2, window // size))
    config = Config(
        level="engine",
        pool=profile.pool,
        policy=choices.pick(profile.policies),
        page_size=size,
        full_size=full_pages * size,
        swa_size=swa_pages * size,
        layers=choices.pick(((FULL, SWA), (FULL, SWA, SWA), (SWA, FULL))),
        window=window,
        need_sort=choices.chance(30),
        dtype=choices.pick(profile.dtypes),
        features=profile.features,
        reserved_decode=min(choices.pick((1 if narrow else 0, 1, 2, size, 2 * size)), full_pages * size // 6),
        decode_tree=profile.decode_tree and choices.chance(75 if narrow else 60),
    )
    return _with_host(choices, config, profile) if profile.host else config


def _with_host(choices: Choices, config: Config, profile: Profile) -> Config:
    """The same node with a tree and a host tier behind it."""
    full, swa = (host_pages(choices, pages, profile) for pages in (config.full_pages, config.swa_pages))
    return replace(
        config,
        decode_tree=True,
        host_full_size=full * config.page_size,
        host_swa_size=swa * config.page_size,
        write_policy=choices.pick(WRITE_POLICIES),
    )


def is_roomy(config: Config) -> bool:
    """Whether a request that may want more than admission looks ahead can be admitted."""
    return config.full_size > CLIP_NEW_TOKENS


def tail_fits(config: Config) -> bool:
    """Whether no prompt's tail is longer than the SWA pool."""
    return config.page_size > 1 and config.window + config.page_size + config.reserved_decode <= config.swa_size
