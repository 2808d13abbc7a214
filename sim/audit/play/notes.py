"""Counters that woven source calls: which sites were reached, and what became of the answers that were kept then.

An answer is *alive* from the moment it is kept until it is dropped. A site is *exposed* to a cache if an answer was
alive when the site changed the mapping, and the cache was asked again before it was filled anew; it is *served* if the
old answer was still there. All objects of a class count as one cache.
"""

from __future__ import annotations

import builtins
from collections import Counter
from dataclasses import dataclass
from typing import TypeVar

from ...core.timeouts import playing

__all__ = ["NAME", "Notes", "install"]

NAME = "_staleloc_notes"
"""Under which woven source finds the counters, wherever it is imported."""

_T = TypeVar("_T")


@dataclass
class _Waiting:
    """A site has changed the mapping under an answer, and nobody has asked for it since.

    Attributes:
        event: index of the event in which that happened.
        dropped: whether the answer is gone.
        guard: which invalidation it was that dropped it, if it is one of those that are counted.
    """

    event: int
    dropped: bool = False
    guard: int | None = None


class Notes:
    """What woven source has counted.

    Attributes:
        call: the call of the target that is under way; ``""`` for none, and then nothing is counted.
        reached: ``(site, call)`` -> how often.
        alive: site -> how often an answer was alive then.
        exposed: ``(site, cache)`` -> how often.
        served: ``(site, cache)`` -> how often an answer from before was there and asked for.
        late: ``(site, cache)`` -> events of this tape in which the site changed the mapping under an answer, each with
            the event in which it was served afterwards.
        changed: event of this tape -> sites that were reached in it.
        needed: guard -> how often an answer that it dropped was asked for again.
        passed: guards whose statement was come to in this tape.
    """

    def __init__(self) -> None:
        self.call = ""
        self.reached: Counter[tuple[int, str]] = Counter()
        self.alive: Counter[int] = Counter()
        self.exposed: Counter[tuple[int, int]] = Counter()
        self.served: Counter[tuple[int, int]] = Counter()
        self.late: dict[tuple[int, int], set[tuple[int, int]]] = {}
        self.changed: dict[int, set[int]] = {}
        self.needed: Counter[int] = Counter()
        self.passed: set[int] = set()
        self._live: set[int] = set()
        self._waiting: dict[int, dict[int, _Waiting]] = {}

    def restart(self) -> None:
        """New objects, for another tape: nothing is alive."""
        self.late.clear()
        self.changed.clear()
        self.passed.clear()
        self._live.clear()
        self._waiting.clear()

    def site(self, number: int) -> None:
        """A site has changed the mapping."""
        if not self.call:
            return
        event = playing()
        self.reached[number, self.call] += 1
        self.changed.setdefault(event, set()).add(number)
        self.alive[number] += bool(self._live)
        for cache in self._live:
            self._waiting.setdefault(cache, {})[number] = _Waiting(event)

    def keep(self, cache: int) -> None:
        """An answer is kept."""
        self._live.add(cache)
        self._waiting.pop(cache, None)

    def drop(self, cache: int) -> None:
        """What is kept is forgotten."""
        self._live.discard(cache)
        for it in self._waiting.get(cache, {}).values():
            it.dropped = True

    def guard(self, number: int) -> None:
        """An invalidation that guards sites is over."""
        for waiting in self._waiting.values():
            for it in waiting.values():
                if it.dropped and it.guard is None:
                    it.guard = number

    def come(self, number: int) -> None:
        """The statement of a guard that drops nothing is about to run."""
        self.passed.add(number)

    def read(self, cache: int, value: _T) -> _T:
        """A cache is asked; gives `value` back."""
        if self.call and cache in self._waiting:
            waiting = self._waiting.pop(cache)
            self.needed.update({it.guard for it in waiting.values() if it.guard is not None})
            for number, it in waiting.items():
                self.exposed[number, cache] += 1
                if not it.dropped and value is not None:
                    self.served[number, cache] += 1
                    self.late.setdefault((number, cache), set()).add((it.event, playing()))
        return value


def install() -> Notes:
    """Counters, where woven source finds them."""
    notes = Notes()
    setattr(builtins, NAME, notes)
    return notes
