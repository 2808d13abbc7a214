"""Eviction orders: what is known of each page's place in the order in which a prefix tree gives pages up.

Engines count differently what is used or inserted, so a place is a range: a page surely leaves before another if the
two ranges do not meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Orders", "Place"]

Place = tuple[int, int]
"""The lowest and the highest possible value; lower ones leave first."""


@dataclass
class _Life:
    """A page since it came into the tree.

    Attributes:
        born: the event at which it came.
        insertions: insertions that went through it.
        counted: those of them that every engine counts.
        highest: the highest priority of the insertions that went through it.
        surely: the highest priority of those that ended with it.
    """

    born: int
    insertions: int = 0
    counted: int = 0
    highest: int = 0
    surely: int = 0


@dataclass
class Orders:
    """The pages of a tree.

    Attributes:
        used: page -> the last event at which the tree may have counted it as used.
        surely: page -> the last event at which it has counted it as used: a match or an insertion ended with it.
    """

    used: dict[int, int] = field(default_factory=dict)
    surely: dict[int, int] = field(default_factory=dict)
    _lives: dict[int, _Life] = field(default_factory=dict)

    def keep(self, event: int, pages: Iterable[int]) -> None:
        """These pages are in the tree after an event."""
        self._lives = {number: self._lives.get(number) or _Life(event) for number in pages}

    def insert(self, path: Sequence[int], priority: int, counted: bool) -> None:
        """A request inserted these pages, those that the tree keeps already included; `counted`: see `_Life`."""
        lives = [self._lives[number] for number in path if number in self._lives]
        for life in lives:
            life.insertions += 1
            life.counted += counted
            life.highest = max(life.highest, priority)
        if path and path[-1] in self._lives:
            end = self._lives[path[-1]]
            end.surely = max(end.surely, priority)

    def place(self, policy: str, numbers: Sequence[int]) -> Place:
        """The place of a node with these pages, under a policy."""
        surely, used = self.surely.get(numbers[-1], -1), max(self.used.get(number, -1) for number in numbers)
        life = self._lives.get(numbers[-1]) or _Life(-1)
        places: Mapping[str, Place] = {
            "lru": (surely, used),
            "mru": (-used, -surely),
            "fifo": (life.born, life.born),
            "filo": (-life.born, -life.born),
            "lfu": (life.counted, life.insertions),
            "priority": (life.surely, life.highest),
        }
        return places[policy]
