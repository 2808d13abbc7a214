"""The expected table full loc -> SWA loc, with the history of every entry."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

__all__ = ["Change", "Mapping"]


class Change(NamedTuple):
    """An entry's value from one event on."""

    event: int
    swa: int


class Mapping:
    """The table, entry by entry.

    Attributes:
        table: SWA loc of each full loc, 0 for "no SWA slot"; `full_size + page_size` entries. The
            final -1 of the real table (the translation of "none") is not part of it.
        history: full loc -> its changes in event order. An entry never set has none.
        used: full loc -> event at which a translation of it was last right.
        lenient: full loc -> a second value that the real table may show, because no caller may read the
            entry: a free group has not resolved it yet, or a restore left it behind.
    """

    def __init__(self, size: int) -> None:
        self.table = [0] * size
        self.history: dict[int, list[Change]] = {}
        self.used: dict[int, int] = {}
        self.lenient: dict[int, int] = {}

    def set(self, event: int, loc: int, swa: int) -> None:
        """Set the entry of `loc` to `swa`, from this event on."""
        self.lenient.pop(loc, None)
        if self.table[loc] != swa:
            self.table[loc] = swa
            self.history.setdefault(loc, []).append(Change(event, swa))

    def follow(self, event: int, table: list[int]) -> None:
        """Adopt the table that was read after this event, at the level at which slots are not predicted."""
        if not self.table:
            self.table = [0] * len(table)
        if table != self.table:
            for loc, swa in enumerate(table):
                self.set(event, loc, swa)

    def changed_from(self, loc: int, swa: int) -> int | None:
        """The last event that changed an entry from this value; None if it never had it, or has it."""
        # An entry begins as "no SWA slot", as that of a tail's head does.
        known = [Change(-1, 0), *self.history.get(loc, [])]
        return next((after.event for before, after in reversed([*pairwise(known)]) if before.swa == swa), None)

    def forget(self, event: int, loc: int) -> None:
        """Clear the entry: it must read 0, or its old value while no caller may read it."""
        old = self.table[loc] or self.lenient.get(loc, 0)
        self.set(event, loc, 0)
        if old:
            self.lenient[loc] = old

    def settle(self, actual: list[int]) -> None:
        """Require 0 from now on of entries that may show an old value and already show 0."""
        for loc in [loc for loc in self.lenient if actual[loc] == 0]:
            del self.lenient[loc]

    def strict(self, locs: Iterable[int]) -> None:
        """Allow no second value any more for these locs."""
        for loc in locs:
            self.lenient.pop(loc, None)

    def use(self, event: int, locs: Iterable[int]) -> None:
        """Record a correct translation of these locs at this event."""
        for loc in locs:
            self.used[loc] = event

    def value_at(self, loc: int, event: int) -> int:
        """The value of the entry right after an event."""
        swa = 0
        for change in self.history.get(loc, ()):
            if change.event > event:
                break
            swa = change.swa
        return swa

    def ever(self, swa: int) -> bool:
        """Whether any loc was ever mapped to this SWA loc; 0 counts always."""
        return swa == 0 or any(change.swa == swa for changes in self.history.values() for change in changes)

    def clear(self, event: int) -> None:
        """Set every entry to 0."""
        self.lenient.clear()
        for loc, swa in enumerate(self.table):
            if swa:
                self.set(event, loc, 0)
