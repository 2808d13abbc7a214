"""Facts about a program: the possible value of an expression, what is kept where, and the log of one reading."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Literal, TypeVar

from .program import Function, Spot

__all__ = [
    "NEUTRAL", "NOTHING", "Facts", "Kind", "Log", "Place", "Store", "Value", "element", "is_constant",
    "join", "part_of",
]  # fmt: skip

_K = TypeVar("_K")


@dataclass(frozen=True)
class Place:
    """Where something is kept: a path of attributes and elements below an object.

    Attributes:
        owner: name of the object's class; of the reading class, with a ``?``, if it is not known; ``""`` for a global.
        path: attributes from there on; ``[name]`` is the element of that key, ``[]`` an element, whichever.
    """

    owner: str
    path: str

    @property
    def whole(self) -> Place:
        """The buffer that this is a part of."""
        path = self.path
        while path.endswith("[]"):
            path = path[:-2]
        return Place(self.owner, path)

    @property
    def attribute(self) -> str:
        """The last name on the way."""
        name = self.whole.path.rpartition(".")[2].replace("[]", "")
        return name[name.find("[") + 1 : -1] if name.endswith("]") else name

    def __str__(self) -> str:
        return ".".join(filter(None, ("*" if "?" in self.owner else self.owner, self.path)))


@dataclass(frozen=True)
class Value:
    """What an expression may be.

    Attributes:
        table: the mapping itself, or memory of it.
        answer: SWA locs that were read from the mapping.
        neutral: nothing yet: None, an empty container, a buffer just made.
        classes: names of classes it is an instance of.
        place: where it is kept, if anywhere.
        items: what its elements are, if it is a tuple.
        param: the parameter it is, or is memory of.
    """

    table: bool = False
    answer: bool = False
    neutral: bool = False
    classes: frozenset[str] = frozenset()
    place: Place | None = None
    items: tuple[Value, ...] = ()
    param: str = ""

    @property
    def bits(self) -> Value:
        """What it is, wherever it is kept."""
        return Value(self.table, self.answer, classes=self.classes, items=tuple(it.bits for it in self.items))

    @property
    def returned(self) -> Value:
        """What it is to a caller, who knows best what a parameter is."""
        own = "" if not self.answer and not self.table else self.param
        items = tuple(it.returned for it in self.items)
        return Value(self.table and not own, self.answer and not own, classes=self.classes, items=items, param=own)

    def where(self, given: Mapping[str, Value]) -> Value:
        """What a function gives back that was given these arguments."""
        passed = given.get(self.param, NOTHING)
        return Value(
            self.table or passed.table,
            self.answer or passed.answer,
            classes=self.classes,
            items=tuple(it.where(given) for it in self.items),
        )


NOTHING = Value()
NEUTRAL = Value(neutral=True)


def join(*values: Value) -> Value:
    """What may be one or another."""
    return reduce(_join, values) if values else NOTHING


def _join(one: Value, two: Value) -> Value:
    if one == two:
        return one
    same = len(one.items) == len(two.items)
    return Value(
        one.table or two.table,
        one.answer or two.answer,
        one.neutral and two.neutral,
        one.classes | two.classes,
        one.place if one.place == two.place else None,
        tuple(map(_join, one.items, two.items)) if same else one.items or two.items,
        one.param or two.param,
    )


@dataclass
class Facts:
    """What is known of a program. It only grows, but for names, which are counted anew when a function is read again.

    Attributes:
        mapping: the attribute that is the mapping wherever it is met.
        kept: what is kept at a place.
        params: what a function is given.
        returns: what it gives back.
        fills: parameters that a function writes answers into.
        missing: functions that are given the mapping and were not met so far.
        spots: where nodes stand; to write them out takes time.
        reader: the function that is being read.
        stores: reader -> attribute -> whether an answer, the table or something else was kept under its name.
        touched: names of which something was learnt in this round: what mentions one is to be read again.
        due: functions that were given something new, and are to be read again themselves.
    """

    mapping: str
    kept: dict[Place, Value] = field(default_factory=dict)
    params: dict[tuple[Function, str], Value] = field(default_factory=dict)
    returns: dict[Function, Value] = field(default_factory=dict)
    fills: set[tuple[Function, str]] = field(default_factory=set)
    reader: Function | None = None
    stores: dict[Function | None, dict[str, set[str]]] = field(default_factory=dict)
    table_names: set[str] = field(default_factory=set)
    answer_names: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    spots: dict[ast.AST, Spot] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    due: set[Function] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.table_names.add(self.mapping)

    def read_by(self, function: Function) -> None:
        """A function is read from its beginning."""
        self.reader = function
        self.stores[function] = {}

    def keep(self, place: Place, value: Value) -> None:
        """Something is kept at a place."""
        if self._learn(self.kept, place, value.bits):
            self.touched.add(place.attribute)
        kind = "table" if value.table else "answer" if value.answer else "" if value.neutral else "other"
        if kind:
            self.stores.setdefault(self.reader, {}).setdefault(place.attribute, set()).add(kind)

    def give(self, function: Function, param: str, value: Value) -> None:
        """A function is given something."""
        given = Value(value.table, value.answer)
        if (value.table or value.answer) and self._learn(self.params, (function, param), given):
            self.due.add(function)

    def give_back(self, function: Function, value: Value) -> None:
        """A function gives something back."""
        if self._learn(self.returns, function, value.returned):
            self.touched.add(function.called)

    def fill(self, function: Function, param: str) -> None:
        """A function writes answers into what it is given."""
        if (function, param) not in self.fills:
            self.fills.add((function, param))
            self.touched.add(function.called)

    def settle(self) -> None:
        """The end of a round: a name under which nothing but one kind of thing is kept says what it is."""
        kinds: dict[str, set[str]] = {}
        for names in self.stores.values():
            for name, met in names.items():
                kinds.setdefault(name, set()).update(met)
        tables = {name for name, met in kinds.items() if met == {"table"}} | {self.mapping}
        answers = {name for name, met in kinds.items() if met == {"answer"}}
        self.touched |= (tables ^ self.table_names) | (answers ^ self.answer_names)
        self.table_names, self.answer_names = tables, answers

    def _learn(self, known: dict[_K, Value], key: _K, value: Value) -> bool:
        """Whether it says anything new."""
        before = known.get(key, NOTHING)
        after = _join(before, value)
        after = replace(after, neutral=False, place=None)
        if after != before:
            known[key] = after
        return after != before


def is_constant(node: ast.expr) -> bool:
    """Whether an index is a number or a slice: it names a part, it does not look anything up."""
    if isinstance(node, ast.Tuple):
        return all(is_constant(it) for it in node.elts)
    if isinstance(node, ast.UnaryOp):
        return is_constant(node.operand)
    return isinstance(node, ast.Constant | ast.Slice)


def part_of(place: Place | None, index: ast.expr) -> Place | None:
    """The place of an element."""
    if place is None:
        return None
    named = isinstance(index, ast.Constant) and isinstance(index.value, str)
    return Place(place.owner, f"{place.path}[{index.value if named else ''}]")  # type: ignore[attr-defined]


def element(value: Value) -> Value:
    """What a loop over it meets."""
    if value.items:
        return join(*value.items)
    place = None if value.place is None else Place(value.place.owner, f"{value.place.path}[]")
    return Value(answer=value.answer, classes=value.classes, place=place)


Kind = Literal["write", "fill", "replace", "alias", "hand-out"]
"""What is done with the mapping: entries written; all of a part set to one value; another tensor put in its place;
memory of it kept under another name; memory of it given to other code."""


@dataclass(frozen=True)
class Store:
    """Something happens to what is kept at a place: an answer is kept, dropped or asked for."""

    place: Place
    spot: Spot
    what: Literal["keep", "fill", "drop", "read"]


@dataclass
class Log:
    """Everything that one reading of all functions has seen."""

    sites: dict[tuple[Kind, Spot], str] = field(default_factory=dict)
    stores: list[Store] = field(default_factory=list)
    calls: list[tuple[Function, Function, Spot]] = field(default_factory=list)
    memoised: list[tuple[Function, Spot]] = field(default_factory=list)
