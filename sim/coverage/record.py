"""The record of code that cannot be driven: ``known/FAMILY.json``, made by reading the source.

An entry names functions by a pattern for ``path:function``, and in them perhaps one statement by the beginning of its
first line, so that an entry survives releases in which other lines change. If that is a compound statement, the entry
holds for its block, or else for the statement and what follows it in its block; with ``rest``, for a compound statement
and what follows it, too. An entry is *stale* if it fits nothing, or if a tape has run what it says cannot be driven.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import Any

from .statements import Function, Statement

__all__ = ["SORTS", "Entry", "Record", "covered_by", "read_record", "record_of"]

SORTS = {
    "accelerator": "needs a GPU, or another platform than a CPU",
    "ranks": "needs several ranks or processes",
    "mamba": "is for Mamba states",
    "storage": "is for storage behind the host tier",
    "feature": "is for a feature or a pool that no target here has",
    "guard": "answers a call that the release never makes",
    "diagnosis": "is for logs, statistics and debugging",
}
"""Sort of a reason -> what it says."""


@dataclass(frozen=True)
class Entry:
    """One reason.

    Attributes:
        place: pattern for ``path:function``.
        line: how the statement begins; ``""`` for the whole function.
        rest: it also holds for the header of a compound statement, and for what follows it in its block.
        sort: one of `SORTS`.
        why: one sentence, without a full stop.
    """

    place: str
    line: str
    sort: str
    why: str
    rest: bool = False

    @property
    def name(self) -> str:
        """Name for reports."""
        return f"{self.place} ({self.line})" if self.line else self.place


@dataclass(frozen=True)
class Record:
    """The reasons for the targets of a family; the first entry that fits a statement counts."""

    entries: tuple[Entry, ...] = ()

    def fitting(self, path: str, function: str) -> list[Entry]:
        """Return the entries for a function."""
        place = f"{path}:{function}"
        return [it for it in self.entries if fnmatchcase(place, it.place)]


def covered_by(entry: Entry, function: Function) -> Iterator[Statement]:
    """Yield the statements of a fitting function for which an entry holds."""
    if not entry.line:
        yield from function.statements
        return
    for found in [it for it in function.statements if it.text.startswith(entry.line)]:
        if found.inner is None or entry.rest:
            first, last = found.first, found.block
        else:
            first, last = found.last + 1, found.inner
        yield from (it for it in function.statements if first <= it.first <= last)


def read_record(values: Iterable[dict[str, Any]]) -> Record:
    """Return the record of JSON values."""
    entries = []
    for it in values:
        if it["is"] not in SORTS:
            raise ValueError(f"{it['place']}: {it['is']!r} is not one of {', '.join(SORTS)}")
        places: Sequence[str] = [it["place"]] if isinstance(it["place"], str) else it["place"]
        entries += [Entry(place, it.get("line", ""), it["is"], it["why"], it.get("rest", False)) for place in places]
    return Record(tuple(entries))


def record_of(family: str) -> Record:
    """Return the record of a family; an empty one if it has none."""
    file = files("staleloc.sim.coverage").joinpath("known", f"{family}.json")
    return read_record(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else Record()
