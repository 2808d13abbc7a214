"""The identity of a token's KV: it depends on all tokens up to it and on the layer, and on nothing else.

Two requests with the same prefix have the same KV there; a prefix cache relies on this. Each pair of prefix and layer
therefore has a tag, and every slot with the KV of that prefix, in any tier, must hold that tag.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["PrefixTags"]


class PrefixTags:
    """Numbers prefixes in the order in which they first occur.

    A tag is ``prefix * layers + layer``, prefixes counted from 1: 0 is the row never written.
    """

    def __init__(self, layers: int) -> None:
        self.layers = layers
        self._numbers: dict[tuple[int, int], int] = {}
        self._parents: list[tuple[int, int]] = [(0, 0)]

    def prefixes(self, tokens: Iterable[int], after: int = 0) -> list[int]:
        """The number of each prefix that continues prefix `after` (0: the empty one) with `tokens`."""
        numbers = []
        for token in tokens:
            key = (after, token)
            after = self._numbers.get(key, 0)
            if not after:
                self._parents.append(key)
                after = self._numbers[key] = len(self._parents) - 1
            numbers.append(after)
        return numbers

    def tag(self, prefix: int, layer: int) -> int:
        """The tag of a prefix at a layer."""
        return prefix * self.layers + layer

    def tokens(self, tag: int) -> tuple[tuple[int, ...], int] | None:
        """The tokens of a tag's prefix and its layer; None for a number that is no tag."""
        prefix, layer = divmod(tag, self.layers)
        if not 0 < prefix < len(self._parents):
            return None
        tokens: list[int] = []
        while prefix:
            prefix, token = self._parents[prefix]
            tokens.append(token)
        return tuple(reversed(tokens)), layer
