"""Counters that woven source calls: which sites were reached, and what became of the answers that were kept then.

An answer is *alive* from the moment it is kept until it is dropped. A site is *exposed* to a cache if an answer was
alive when the site changed the mapping, and the cache was asked again before it was filled anew; it is *served* if the
old answer was still there. All objects of a class count as one cache.
"""

from __future__ import annotations

import builtins
from collections import Counter
from typing import TypeVar

__all__ = ["NAME", "Notes", "install"]

NAME = "_staleloc_notes"
"""Under which woven source finds the counters, wherever it is imported."""

_T = TypeVar("_T")


class Notes:
    """What woven source has counted.

    Attributes:
        call: the call of the target that is under way; ``""`` for none, and then nothing is counted.
        reached: ``(site, call)`` -> how often.
        alive: site -> how often an answer was alive then.
        exposed: ``(site, cache)`` -> how often.
        served: ``(site, cache)`` -> how often an answer from before was there and asked for.
        calls: ``(site, cache)`` -> calls in which the site was reached, of those that were served.
    """

    def __init__(self) -> None:
        self.call = ""
        self.reached: Counter[tuple[int, str]] = Counter()
        self.alive: Counter[int] = Counter()
        self.exposed: Counter[tuple[int, int]] = Counter()
        self.served: Counter[tuple[int, int]] = Counter()
        self.calls: dict[tuple[int, int], set[str]] = {}
        self._live: set[int] = set()
        self._pending: dict[int, dict[int, tuple[str, bool]]] = {}

    def restart(self) -> None:
        """New objects: nothing is alive."""
        self._live.clear()
        self._pending.clear()

    def site(self, number: int) -> None:
        """A site has changed the mapping."""
        if not self.call:
            return
        self.reached[number, self.call] += 1
        self.alive[number] += bool(self._live)
        for cache in self._live:
            self._pending.setdefault(cache, {})[number] = (self.call, False)

    def keep(self, cache: int) -> None:
        """An answer is kept."""
        self._live.add(cache)
        self._pending.pop(cache, None)

    def drop(self, cache: int) -> None:
        """What is kept is forgotten."""
        self._live.discard(cache)
        waiting = self._pending.get(cache, {})
        self._pending[cache] = {number: (call, True) for number, (call, _) in waiting.items()}

    def read(self, cache: int, value: _T) -> _T:
        """A cache is asked; gives `value` back."""
        if self.call and cache in self._pending:
            for number, (call, dropped) in self._pending.pop(cache).items():
                self.exposed[number, cache] += 1
                if not dropped and value is not None:
                    self.served[number, cache] += 1
                    self.calls.setdefault((number, cache), set()).add(call)
        return value


def install() -> Notes:
    """Counters, where woven source finds them."""
    notes = Notes()
    setattr(builtins, NAME, notes)
    return notes
