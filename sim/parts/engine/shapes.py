"""Draws of a config's fields: windows, layers, context lengths and drafts, as servers have them and as they could."""

from __future__ import annotations

from typing import Any

from ....models.config import FULL, MAX_CONTEXT, SWA
from ...core.choices import Choices
from ...targets.base import Profile

__all__ = ["draw_context", "draw_draft", "draw_layers", "draw_page_size", "draw_window"]

_LAYERS: tuple[tuple[str, ...], ...] = (
    (FULL, SWA),
    (FULL, SWA, SWA),
    (SWA, FULL),
    (SWA, FULL, SWA),
    (SWA, SWA, SWA, SWA, SWA, FULL),
    (SWA,),
)
"""Full first, SWA first and last, one full layer in six, and SWA alone."""

_LAYER_WEIGHTS = (4, 3, 2, 1, 1, 1)

_BLOCKS = (1, 2, 4, 7, 7, 15, 15)
"""Draft tokens of DFLASH, whose blocks are long."""

_CHAINS = (1, 2, 3, 4, 9)
_TREES = (1, 2, 3, 4)
"""Steps of an EAGLE draft with one branch, and with more."""

_CONTEXTS = 50
"""Percent of tapes whose model has a context length."""


def draw_page_size(choices: Choices, profile: Profile) -> int:
    """A page size; large ones are drawn less often, because their tapes cost more."""
    return profile.page_sizes[choices.weighted([1 if size >= 16 else 4 for size in profile.page_sizes])]


def draw_window(choices: Choices, size: int) -> int:
    """A window of one or two pages, or of any length up to four pages (eight if pages are small).

    Real servers have all of them: pages of 64 with a window of 128, pages of 16 with one of 4096, pages of 1 with one
    of 1024, and windows that are no multiple of a page.
    """
    many = 8 if size < 16 else 4
    kind = choices.weighted((4, 4, 2))
    if kind == 0:
        return choices.pick((size, 2 * size)) if size > 1 else choices.pick((2, 4))
    if kind == 1:
        return choices.integer(1, max(4, 2 * size + 2))
    return choices.integer(2, many if size > 1 else 2 * many) * size


def draw_layers(choices: Choices) -> tuple[str, ...]:
    """Layer kinds, in the order of a forward."""
    return _LAYERS[choices.weighted(_LAYER_WEIGHTS)]


def draw_context(choices: Choices, room: int, reach: int) -> int:
    """A context length, or 0 for none.

    Args:
        choices: what is drawn from.
        room: tokens that a request can have slots for; requests should come near the limit.
        reach: tokens that requests must be able to come to; see `staleloc.sim.parts.pins.reach`.
    """
    if reach:
        return choices.integer(reach, max(reach, min(room, 2 * reach, MAX_CONTEXT)))
    if room < 16 or not choices.chance(_CONTEXTS):
        return 0
    return choices.integer(16, min(room, 192))


def draw_draft(choices: Choices, profile: Profile, size: int) -> dict[str, Any]:
    """The fields of a draft: version, steps, branches, verified tokens, and whether keys are bigrams."""
    version = choices.pick(profile.spec_versions)
    chain = version == "dflash" or (size > 1 and version in profile.spec_chains)
    topk = choices.pick((1, 1, 2, 3) if size < 16 else (1, 1, 1, 2))
    topk = 1 if chain else profile.pinned("spec_topk", topk)
    steps = choices.pick(_BLOCKS if version == "dflash" else _CHAINS if topk == 1 else _TREES)
    if "spec_draft_tokens" in profile.pins:
        tokens = profile.pins["spec_draft_tokens"] - 1
        steps = tokens if topk == 1 else max(steps, -(-tokens // topk))
    steps = profile.pinned("spec_steps", steps)
    most = 1 + steps * topk
    return {
        "spec_version": version,
        "spec_steps": steps,
        "spec_topk": topk,
        "spec_draft_tokens": most if topk == 1 else profile.pinned("spec_draft_tokens", choices.integer(2, most)),
        "bigram": profile.pinned("bigram", choices.chance(60)) and version != "dflash",
    }
