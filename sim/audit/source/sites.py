"""Finds mutation sites, caches and invalidations in source that is neither imported nor run."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass

from ...targets.family import Family
from .calls import TENSOR_METHODS
from .facts import Facts, Kind, Log, Place
from .program import Function, Program, Source, Spot, Unread, parse
from .statements import Statements

__all__ = ["Map", "Reading", "Site", "map_of", "read_program"]

_MAX_ROUNDS = 20

_SMALL = 2_000_000
"""Characters of a program that is parsed as a whole."""

_TELLING = ("swa", "mapping", "translate", "cached_loc")
"""Parts of names that are worth a look at the file that has one, if they lead to the mapping or to answers."""


@dataclass
class Reading:
    """What came of reading a program.

    Attributes:
        files: how many there are.
        parsed: how many of them have to do with the mapping.
        rounds: how often they were read until nothing new was learnt.
        unread: files that could not be read; what they do is not known.
    """

    program: Program
    facts: Facts
    log: Log
    files: int
    rounds: int
    unread: list[Unread]

    @property
    def parsed(self) -> int:
        return len(self.program.modules)


def read_program(found: Iterable[Source | Unread], mapping: str = Family.mapping) -> Reading:
    """Read all of these sources.

    Args:
        mapping: the attribute that is the mapping wherever it is met. Every other name of it is learnt.
    """
    reader = _Reader(mapping)
    for it in found:
        reader.take(it)
    return reader.read()


class _Reader:
    def __init__(self, mapping: str) -> None:
        self._waiting: list[Source] = []
        self._unread: list[Unread] = []
        self._files = 0
        self._program = Program()
        self._facts = Facts(mapping)
        self._words: set[str] = {mapping}
        self._sought: set[str] = set()
        self._read: set[Function] = set()

    def take(self, found: Source | Unread) -> None:
        self._files += 1
        if isinstance(found, Unread):
            self._unread.append(found)
        else:
            self._waiting.append(found)

    def read(self) -> Reading:
        """Read until nothing new is learnt, and then all of it once more: what calls what is seen by then."""
        rounds = 0
        self._parse()
        while rounds < _MAX_ROUNDS:
            rounds += 1
            self._round(Log(), self._is_due())
            self._grow()
            if not (self._parse() or self._facts.touched or self._facts.due):
                break
        log = Log()
        self._round(log, lambda _: True)
        unread = sorted(self._unread, key=lambda it: it.path)
        return Reading(self._program, self._facts, log, self._files, rounds, unread)

    def _is_due(self) -> Callable[[Function], bool]:
        """Which functions to read: new ones, and those that what the last round has learnt may say more of."""
        touched, due, read = self._facts.touched, self._facts.due, self._read
        self._facts.touched, self._facts.due = set(), set()
        return lambda it: it not in read or it in due or not touched.isdisjoint(it.words)

    def _round(self, log: Log, is_due: Callable[[Function], bool]) -> None:
        """Read functions, in the order of files and lines."""
        for _, module in sorted(self._program.modules.items()):
            for function in module.functions:
                if is_due(function):
                    self._read.add(function)
                    self._facts.read_by(function)
                    Statements(self._program, self._facts, log, function).read_function()
        self._facts.settle()

    def _grow(self) -> None:
        """Names that lead to the mapping or to answers."""
        facts = self._facts
        words = {place.attribute for place, value in facts.kept.items() if value.table or value.answer}
        for function, value in facts.returns.items():
            if value.table or value.answer or any(it.table or it.answer for it in value.items):
                words.add(function.called)
        for function, name in facts.params:
            words.update((function.called, name))
        words.update(function.called for function, _ in facts.fills)
        self._words |= words

    def _parse(self) -> bool:
        """Parse the files that have become of interest."""
        words = self._leading()
        fresh = None if words is None else [word for word in words if word not in self._sought]
        self._sought.update(words or ())
        still: list[Source] = []
        before = len(self._program.modules)
        for source in self._waiting:
            if fresh is not None and not any(word in source.text for word in fresh):
                still.append(source)
                continue
            module = parse(source)
            if isinstance(module, Unread):
                self._unread.append(module)
            else:
                self._program.add(module)
                self._facts.touched.update(it.called for it in module.functions)
        self._waiting = still
        return len(self._program.modules) > before

    def _leading(self) -> list[str] | None:
        """Words that make a file of interest; None if every file is."""
        if sum(len(source.text) for source in self._waiting) < _SMALL and not self._program.modules:
            return None
        names = {place.attribute for place, value in self._facts.kept.items() if value.table} | {self._facts.mapping}
        given = {name for _, name in self._facts.params}
        words = self._words - TENSOR_METHODS - given
        telling = {word for word in words if word not in _TELLING and any(part in word for part in _TELLING)}
        missing = {f"def {name}(" for name in self._facts.missing if name not in TENSOR_METHODS and len(name) > 3}
        return sorted({word for word in names | telling if len(word) > 3} | missing)


CHANGES: tuple[Kind, ...] = ("write", "fill", "replace")
"""Kinds of sites that change what a translation is; the others say who could."""

_DEPTH = 4
"""Calls between an invalidation, or a site, and the function that is looked at."""


@dataclass(frozen=True)
class Guard:
    """A call, or a statement, that drops what a cache holds."""

    cache: str
    spot: Spot


@dataclass(frozen=True)
class Site:
    """A place that changes the mapping, or lets other code have it.

    Attributes:
        detail: under which name it is kept, to whom it is handed.
        guards: invalidations in its function, or in functions that call it.
        open: functions that lead to it and drop nothing on the way, the outermost that are known.
    """

    kind: Kind
    spot: Spot
    detail: str
    guards: tuple[Guard, ...]
    open: tuple[str, ...]

    @property
    def changes(self) -> bool:
        """Whether answers may be wrong afterwards. The first mapping of an object finds none."""
        return self.kind in CHANGES and self.detail != "its first"


@dataclass(frozen=True)
class Cache:
    """A place at which answers are kept.

    Attributes:
        kept: where they come in.
        dropped: where they are forgotten.
        read: where they are asked for.
    """

    name: str
    place: Place
    kept: tuple[Spot, ...]
    dropped: tuple[Spot, ...]
    read: tuple[Spot, ...]


@dataclass(frozen=True)
class Map:
    """Everything that was found in a program."""

    sites: tuple[Site, ...]
    caches: tuple[Cache, ...]
    unread: tuple[Unread, ...]
    files: int
    parsed: int


def map_of(reading: Reading) -> Map:
    """The sites and caches of a program that was read."""
    caches = _caches(reading)
    ways = _Ways(reading, caches)
    sites = [
        Site(kind, spot, detail, *ways.of(spot)) if kind in CHANGES else Site(kind, spot, detail, (), ())
        for (kind, spot), detail in sorted(reading.log.sites.items(), key=lambda it: (it[0][1], it[0][0]))
    ]
    return Map(tuple(sites), caches, tuple(reading.unread), reading.files, reading.parsed)


def _caches(reading: Reading) -> tuple[Cache, ...]:
    spots: dict[Place, dict[str, dict[Spot, None]]] = defaultdict(lambda: defaultdict(dict))
    keepers = {store.place for store in reading.log.stores if store.what in ("keep", "fill")}
    for store in reading.log.stores:
        for place in _meant(store.place, keepers) if store.what == "drop" else [store.place]:
            spots[place]["kept" if store.what == "fill" else store.what][store.spot] = None
    found = []
    for place, by_kind in sorted(spots.items(), key=lambda it: (it[0].owner, it[0].path)):
        kept = sorted({**by_kind["keep"], **by_kind["kept"]})
        if kept:
            dropped = sorted(by_kind["drop"])
            # What a statement writes to, it does not ask for.
            written = {(spot.path, spot.line) for spot in (*by_kind["kept"], *dropped)}
            read = sorted(spot for spot in by_kind["read"] if (spot.path, spot.line) not in written)
            found.append(Cache(str(place), place, tuple(kept), tuple(dropped), tuple(read)))
    for function, spot in reading.log.memoised:
        if reading.facts.returns.get(function) is not None and reading.facts.returns[function].answer:
            found.append(Cache(f"{function.name}()", Place("", function.name), (spot,), (), ()))
    return tuple(found)


def _meant(place: Place, keepers: Set[Place]) -> list[Place]:
    """Where something is forgotten: of an object whose class is not known, any that keeps an answer by that name."""
    if place in keepers or not (place.owner.endswith("?") or "." in place.path):
        return [place]
    return [it for it in keepers if it.path == place.attribute and not it.owner.endswith("?")] or [place]


class _Ways:
    """Who calls whom, and where on the way answers are dropped."""

    def __init__(self, reading: Reading, caches: Iterable[Cache]) -> None:
        self._callers: dict[Function, dict[Function, None]] = defaultdict(dict)
        self._calls: dict[Function, list[tuple[Function, Spot]]] = defaultdict(list)
        self._functions = {
            (it.module.source.path, it.name): it for known in reading.program.modules.values() for it in known.functions
        }
        for caller, callee, spot in reading.log.calls:
            self._callers[callee][caller] = None
            self._calls[caller].append((callee, spot))
        self._drops: dict[Function, dict[str, Spot]] = defaultdict(dict)
        for cache in caches:
            for spot in cache.dropped:
                self._drops[self._functions[spot.path, spot.function]].setdefault(cache.name, spot)
        self._known: dict[Function, dict[str, Spot]] = {}
        self._changing = self._leading_to(spot for (kind, spot) in reading.log.sites if kind in CHANGES)

    def _leading_to(self, spots: Iterable[Spot]) -> set[Function]:
        """Functions that change the mapping themselves, or by calls."""
        todo = [self._functions[spot.path, spot.function] for spot in spots]
        seen: set[Function] = set()
        while todo:
            function = todo.pop()
            if function not in seen:
                seen.add(function)
                todo += self._callers[function]
        return seen

    def of(self, spot: Spot) -> tuple[tuple[Guard, ...], tuple[str, ...]]:
        """The guards of a site, and the functions from which it is reached without one."""
        guards: dict[Guard, None] = {}
        bare: dict[str, None] = {}
        todo = [(self._functions[spot.path, spot.function], 0)]
        seen = set()
        while todo:
            function, depth = todo.pop(0)
            if function in seen:
                continue
            seen.add(function)
            dropped = self._dropped_in(function)
            if dropped:
                guards.update(dict.fromkeys(Guard(cache, it) for cache, it in sorted(dropped.items())))
                continue
            callers = [it for it in self._callers[function] if it not in seen]
            if function.name.rpartition(".")[2] == "__init__":
                continue  # no translation of its mapping was requested yet
            if not callers or depth == _DEPTH:
                bare[function.name] = None
            todo += [(it, depth + 1) for it in callers]
        return tuple(sorted(guards, key=lambda it: (it.cache, it.spot))), tuple(sorted(bare))

    @staticmethod
    def _statements(function: Function) -> set[tuple[int, int]]:
        """Where its calls stand that are statements: what they give back is not used, so they can go."""
        return {(it.lineno, it.col_offset) for it in ast.walk(function.node) if isinstance(it, ast.Expr)}

    def _dropped_in(self, function: Function, depth: int = 0) -> dict[str, Spot]:
        """Caches that a function drops, by itself or by calls, and the statement of its own that does."""
        if function not in self._known:
            self._known[function] = dict(self._drops[function])
            if depth < _DEPTH:
                statements = self._statements(function)
                for callee, spot in self._calls[function]:
                    if callee in self._changing:
                        continue  # an eviction, for instance, drops what it takes: it is no invalidation
                    alone = (spot.line, spot.column) in statements
                    for cache, inner in self._dropped_in(callee, depth + 1).items():
                        self._known[function].setdefault(cache, spot if alone else inner)
        return self._known[function]
