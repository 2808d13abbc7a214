"""Keys of the prefix tree that are pairs of tokens: the KV of a draft like EAGLE's depends on the next token too."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

__all__ = ["bigrams", "first", "second"]

_SHIFT = 32


def bigrams(tokens: Sequence[int]) -> list[int]:
    """The keys of some tokens, one fewer than there are tokens."""
    return [(token << _SHIFT) + after for token, after in itertools.pairwise(tokens)]


def first(key: int) -> int:
    """The token whose KV lies under a key."""
    return key >> _SHIFT


def second(key: int) -> int:
    """The token after it."""
    return key & ((1 << _SHIFT) - 1)
