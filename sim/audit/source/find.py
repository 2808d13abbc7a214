"""Finds mutation sites and caches in source that was never seen before. Nothing of it is imported or run.

A small program is parsed as a whole. Of a large one a file is parsed if it mentions the mapping, or a name that leads
to it; what is learnt there may make further names and files of interest. All that was parsed is read again until
nothing new is learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...targets.family import Family
from .calls import TENSOR_METHODS
from .definitions import Function, parse
from .facts import Log
from .program import Program
from .sources import Source, Unread
from .statements import Statements
from .values import Facts

__all__ = ["Reading", "read_program"]

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
