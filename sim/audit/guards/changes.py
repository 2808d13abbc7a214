"""Guards that are taken away, one at a time: each gives a changed target, on which a tape must part from the model."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from ..source.definitions import Function
from ..source.find import Reading
from ..source.sites import Map
from ..source.spots import Spot, text_of
from .guards import KINDS, GuardKind, rewrites_of

__all__ = ["Change", "changes_of", "unmatched"]


@dataclass(frozen=True)
class Change:
    """One guard, taken away.

    Attributes:
        spot: the statement in which it stands.
        line, column: of what is replaced, `old`.
        new: what comes in; ``""`` for nothing. For an order, the statement after it, which comes first then.
        again: how many guards of its function have the same texts and come before it.
        sites: numbers of the sites that it guards.
        caches: numbers of the caches that it drops.
    """

    kind: GuardKind
    spot: Spot
    line: int
    column: int
    old: str
    new: str = ""
    again: int = 0
    sites: tuple[int, ...] = ()
    caches: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """What is done, on one line; it stays the same when lines move. No two changes of a program share one."""
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        told = f": {old} after {new}" if self.kind == "order" else f": {new} for {old}"
        if not new:
            told = f" without {old}"
        return f"{self.spot.function}{told}{f' ({self.again + 1})' if self.again else ''}"


def changes_of(reading: Reading, found: Map, only: str = "*") -> tuple[Change, ...]:
    """Every guard in functions that have to do with the mapping, in the order of files and lines.

    Args:
        only: patterns for ``path:function``, with commas; guards elsewhere are left alone. One that ends with a name
            takes all guards of that function, whether it has to do with the mapping itself or by what it calls.
    """
    sites: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, site in enumerate(found.sites):
        if site.changes:
            sites[site.spot.path, _outer(site.spot.function)].append(number)
    changes = _invalidations(found)
    dropped = {(it.spot.path, it.line, it.column) for it in changes}
    patterns = only.split(",")
    for function in _concerned(reading, [it for it in patterns if it[-1:].isidentifier()]):
        place = function.module.source.path, function.name
        changes += [replace(it, sites=tuple(sites[place])) for it in _others(function, dropped)]
    wanted = (it for it in changes if _matches(it.spot.path, it.spot.function, patterns))
    return tuple(_numbered(sorted(wanted, key=_place)))


def unmatched(reading: Reading, only: str) -> str | None:
    """The first of these patterns that no function matches, which is a slip of the pen."""
    functions = [(path, it.name) for path, module in reading.program.modules.items() for it in module.functions]
    return next((it for it in only.split(",") if not any(_matches(*place, [it]) for place in functions)), None)


def _matches(path: str, function: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(f"{path}:{function}", pattern) for pattern in patterns)


def _place(change: Change) -> tuple[str, int, int, int, str]:
    return change.spot.path, change.line, change.column, KINDS.index(change.kind), change.new


def _numbered(changes: list[Change]) -> Iterator[Change]:
    """With a number for each that has the name of one before it."""
    met: Counter[tuple[str, str]] = Counter()
    for change in changes:
        key = change.spot.path, change.name
        yield replace(change, again=met[key])
        met[key] += 1


def _invalidations(found: Map) -> list[Change]:
    numbers = {cache.name: number for number, cache in enumerate(found.caches)}
    guards: dict[Spot, tuple[set[int], set[int]]] = {}
    for number, site in enumerate(found.sites):
        for guard in site.guards if site.changes else ():
            sites, caches = guards.setdefault(guard.spot, (set(), set()))
            sites.add(number)
            caches.add(numbers[guard.cache])
    return [
        Change("invalidation", spot, spot.line, spot.column, spot.text, "", 0, tuple(sorted(a)), tuple(sorted(b)))
        for spot, (a, b) in guards.items()
    ]


def _others(function: Function, dropped: set[tuple[str, int, int]]) -> Iterator[Change]:
    """Guards of the other kinds in one function."""
    assert isinstance(function.node, ast.FunctionDef | ast.AsyncFunctionDef)
    path = function.module.source.path
    for it in rewrites_of(function.node):
        line, column = it.node.lineno, it.node.col_offset
        if it.node is it.statement and it.kind != "order" and (path, line, column) in dropped:
            continue  # an invalidation, which is one already
        statement = it.statement
        spot = Spot(path, statement.lineno, statement.col_offset, function.name, text_of(statement))
        yield Change(it.kind, spot, line, column, ast.unparse(it.node), it.new)


def _concerned(reading: Reading, named: Sequence[str]) -> list[Function]:
    """Functions and methods in which the mapping or an answer is: changed, kept, asked for, given or given back; and
    those that patterns name.

    Constructors are not among them, nor what Python calls by itself: nothing is cached before an object is made.
    """
    facts = reading.facts
    places = {(spot.path, spot.function) for _, spot in reading.log.sites}
    places |= {(it.spot.path, it.spot.function) for it in reading.log.stores}
    given = [function for (function, _), value in facts.params.items() if value.table or value.answer]
    returning = {
        function
        for function, value in facts.returns.items()
        if value.table or value.answer or any(it.table or it.answer for it in value.items)
    }
    asking = [caller for caller, callee, _ in reading.log.calls if callee in returning]
    for function in (*given, *returning, *asking, *(it for it, _ in facts.fills)):
        places.add((function.module.source.path, function.name))
    outer = {(path, _outer(name)) for path, name in places}
    tables = facts.table_names | {place.attribute for place, value in facts.kept.items() if value.table}
    return [
        function
        for _, module in sorted(reading.program.modules.items())
        for function in module.functions
        if (
            (function.module.source.path, function.name) in outer
            or function.words & tables
            or _matches(function.module.source.path, function.name, named)
        )
        and "<locals>" not in function.name
        and isinstance(function.node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not function.name.endswith("__")
        and not function.is_kernel
    ]


def _outer(function: str) -> str:
    """The method or function in which a nested one stands."""
    return function.partition(".<locals>")[0]
