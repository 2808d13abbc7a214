"""The result: for each file and function the lines that can run, those that ran, and the reasons for others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby

from .record import Entry, Record, covered_by
from .statements import Function, Statement

__all__ = ["FITS_NOTHING", "Count", "File", "Gap", "Row", "matches", "stale_entries", "table_of"]

FITS_NOTHING = "fits nothing"
"""What is wrong with an entry of which the release has no line."""


@dataclass(frozen=True)
class Gap:
    """Lines of a function that no tape ran.

    Attributes:
        count: number of statements.
        reason: why they cannot be driven; None if that is not known.
    """

    first: int
    last: int
    count: int
    reason: Entry | None


@dataclass(frozen=True)
class Count:
    """Numbers of statements. Those that ran do not count as not drivable, whatever the record says."""

    lines: int = 0
    run: int = 0
    not_drivable: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.lines + other.lines, self.run + other.run, self.not_drivable + other.not_drivable)

    @property
    def not_reached(self) -> int:
        """Statements that could be driven and did not run."""
        return self.lines - self.run - self.not_drivable

    @property
    def percent(self) -> float | None:
        """Part of the drivable statements that ran, rounded down to a tenth; None if there are none."""
        drivable = self.lines - self.not_drivable
        return (1000 * self.run // drivable) / 10 if drivable else None

    def reaches(self, percent: float) -> bool:
        """Whether at least this part of the drivable statements ran."""
        return 100 * self.run >= percent * (self.lines - self.not_drivable)


@dataclass(frozen=True)
class Row:
    """A function."""

    function: Function
    count: Count
    gaps: tuple[Gap, ...]


@dataclass(frozen=True)
class File:
    """A file and its functions."""

    path: str
    rows: tuple[Row, ...]

    @property
    def count(self) -> Count:
        """The numbers of all functions together."""
        return sum((row.count for row in self.rows), Count())


def matches(patterns: Iterable[str], path: str, function: str = "") -> bool:
    """Return whether one of the patterns is for a function, or without one for a function of the file.

    Args:
        patterns: for ``path`` or ``path:function``.
    """
    for pattern in patterns:
        files, _, functions = pattern.partition(":")
        if fnmatchcase(path, files) and (not functions or not function or fnmatchcase(function, functions)):
            return True
    return False


def table_of(
    functions: Mapping[str, Sequence[Function]], lines: Mapping[str, Collection[int]], record: Record
) -> list[File]:
    """Return the table, in the order of paths.

    Args:
        functions: path -> the functions to report.
        lines: path -> lines that ran.
    """
    return [
        File(path, tuple(_row(path, it, lines.get(path, ()), record) for it in functions[path]))
        for path in sorted(functions)
    ]


def _row(path: str, function: Function, lines: Collection[int], record: Record) -> Row:
    reasons: dict[Statement, Entry] = {}
    for entry in record.fitting(path, function.name):
        for statement in covered_by(entry, function):
            reasons.setdefault(statement, entry)
    run = {it for it in function.statements if ran(it, lines)}
    states = [(it in run, None if it in run else reasons.get(it), it) for it in function.statements]
    gaps = []
    for (has_run, reason), group in groupby(states, key=lambda it: it[:2]):
        if not has_run:
            missing = [it for _, _, it in group]
            gaps.append(Gap(missing[0].first, missing[-1].last, len(missing), reason))
    not_drivable = sum(gap.count for gap in gaps if gap.reason is not None)
    return Row(function, Count(len(function.statements), len(run), not_drivable), tuple(gaps))


def ran(statement: Statement, lines: Collection[int]) -> bool:
    """Return whether a statement ran."""
    return any(line in lines for line in range(statement.first, statement.last + 1))


def stale_entries(
    functions: Mapping[str, Sequence[Function]], lines: Mapping[str, Collection[int]], record: Record
) -> list[tuple[Entry, str]]:
    """Return the entries of a record that do not hold, each with a few words that say why.

    Args:
        functions: path -> the functions of the whole target, whatever is reported.
    """
    return [(entry, flaw) for entry in record.entries if (flaw := _flaw(entry, functions, lines)) is not None]


def _flaw(
    entry: Entry, functions: Mapping[str, Sequence[Function]], lines: Mapping[str, Collection[int]]
) -> str | None:
    held = list(_held(entry, functions))
    if not held:
        return FITS_NOTHING
    path, first = next(((path, it) for path, it in held if ran(it, lines.get(path, ()))), ("", None))
    return None if first is None else f"{path}:{first.first} was run"


def _held(entry: Entry, functions: Mapping[str, Sequence[Function]]) -> Iterator[tuple[str, Statement]]:
    for path in sorted(functions):
        for function in functions[path]:
            if fnmatchcase(f"{path}:{function.name}", entry.place):
                yield from ((path, it) for it in covered_by(entry, function))
