"""The source of random decisions: small integers, and nothing else.

The generator requests only integers in a range. The source of these integers decides the kind of search: a seeded
generator (campaigns), Hypothesis (property tests, with its database and shrinker), or a counter that visits every
answer (bounded exhaustive search).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject

__all__ = ["Choices", "HypothesisChoices", "Source", "seeded"]

T = TypeVar("T")

_LAST = 4095
"""One answer in this many ends a tape. Rare, so that tapes get long; a shrinker tries 0 first."""


class Source(Protocol):
    """Answers with an integer between `low` and `high`, both included.

    Attributes:
        simplifies: the source looks for the simplest answers that show a failure, and may therefore end a tape early.
    """

    simplifies: bool

    def integer(self, low: int, high: int) -> int:
        """An integer in ``[low, high]``."""


class Choices:
    """The decisions of a generator, all made from a source's integers.

    Smaller answers mean simpler choices: earlier elements, fewer events, shorter spans.
    """

    def __init__(self, source: Source) -> None:
        self.integer = source.integer
        self._source = source
        self._simplifies = source.simplifies

    def fork(self, name: str) -> Choices:
        """Choices of their own, which take nothing from these: what is drawn with them changes no other draw.

        A source that is searched, and not seeded, has one sequence of answers for all.
        """
        return Choices(self._source.forked(name)) if isinstance(self._source, _Seeded) else self

    def more(self) -> bool:
        """Whether to continue. Only a source that simplifies may end a tape early."""
        return not self._simplifies or self.integer(0, _LAST) > 0

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.integer(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        """True in `percent` of 100 cases; False is the simpler answer."""
        return self.integer(0, 99) >= 100 - percent

    def weighted(self, weights: Sequence[int]) -> int:
        """An index, with a probability proportional to its weight."""
        point = self.integer(0, sum(weights) - 1)
        for index, weight in enumerate(weights):
            point -= weight
            if point < 0:
                return index
        raise AssertionError("weights do not add up")


class _Seeded:
    simplifies = False

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._random = random.Random(seed).random

    def forked(self, name: str) -> _Seeded:
        return _Seeded(f"{self._seed}/{name}")

    def integer(self, low: int, high: int) -> int:
        return low + int(self._random() * (high - low + 1))


def seeded(seed: int, index: int) -> Choices:
    """The choices of tape number `index` of a campaign: the same numbers on every machine."""
    return Choices(_Seeded(f"{seed}/{index}"))


class HypothesisChoices:
    """Choices drawn through Hypothesis: ``Choices(HypothesisChoices(data))`` inside a ``@given(st.data())`` test."""

    simplifies = True

    def __init__(self, data: DataObject) -> None:
        from hypothesis import strategies

        self._draw = data.draw
        self._integers = strategies.integers

    def integer(self, low: int, high: int) -> int:
        """An integer in ``[low, high]``, shrinking towards `low`."""
        return self._draw(self._integers(low, high))
