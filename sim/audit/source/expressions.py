"""Reads expressions: their possible values and their effects."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace

from .calls import TENSOR_METHODS, read_call
from .facts import (
    NEUTRAL,
    NOTHING,
    Facts,
    Kind,
    Log,
    Place,
    Store,
    Value,
    element,
    is_constant,
    join,
    part_of,
)
from .program import Function, Program, Spot, text_of

__all__ = ["Expressions"]


class Resolver:
    """Answers for one function's names."""

    def __init__(self, program: Program, facts: Facts, function: Function) -> None:
        self.program = program
        self.facts = facts
        self.function = function

    def annotated(self, node: ast.expr | None) -> frozenset[str]:
        """Classes of the program that an annotation names."""
        return frozenset() if node is None else self.program.classes_in(node)

    def callees(self, func: ast.expr, receiver: Value) -> list[Function]:
        """Functions that a call of `func` may reach; `receiver` is what ``x`` is in ``x.name(...)``."""
        if isinstance(func, ast.Subscript):  # a kernel and its grid
            func = func.value
        if isinstance(func, ast.Name):
            if self.program.is_class(func.id):
                return self.program.methods(func.id, "__init__")
            return self.program.functions(func.id, self.function.module)
        if isinstance(func, ast.Attribute):
            return self._methods(func, receiver)
        return []

    def _methods(self, func: ast.Attribute, receiver: Value) -> list[Function]:
        above = func.value
        if isinstance(above, ast.Call) and isinstance(above.func, ast.Name) and above.func.id == "super":
            return self.program.methods(self.function.owner, func.attr, of_super=True)
        if isinstance(above, ast.Name) and above.id in self.function.module.imported:
            return self.program.functions(func.attr, self.function.module)
        owners = sorted(receiver.classes)
        if isinstance(above, ast.Name) and above.id[:1].isupper() and not owners:
            owners = [above.id]
        known = [it for owner in owners for it in self.program.methods(owner, func.attr)]
        if known or (owners and not receiver.classes):
            return known
        if receiver.table or receiver.answer or (func.attr in TENSOR_METHODS and not receiver.classes):
            return []
        return self.program.anywhere(func.attr)

    def given_back(
        self, callees: Sequence[Function], given: Mapping[Function, Mapping[str, Value]], sure: bool
    ) -> Value:
        """What a call of one of these gives back; unless `sure` that they are meant, what all of them agree on.

        Args:
            given: for each of them the arguments by name.
        """
        asked = callees if sure else _telling(callees)
        values = [self.facts.returns.get(it, NOTHING).where(given.get(it, {})) for it in asked]
        classes = frozenset(name for it in callees for name in self.annotated(getattr(it.node, "returns", None)))
        value = join(*values)
        if not sure:
            items = value.items if all(it.items for it in values) else ()
            table = bool(values) and all(it.table for it in values)
            # Engines have pools that translate in another way under the same name: it is a translation all the same.
            enough = any if any(word in _last(it) for it in asked for word in ("translate", "swa")) else all
            answer = bool(values) and enough(it.answer for it in values)
            value = Value(table, answer, classes=value.classes, items=items)
        return replace(value, classes=value.classes | classes)

    def kept_at(self, place: Place, *, of_self: bool) -> Value:
        """What is kept at an object's attribute or element."""
        if "?" in place.owner or not place.owner:
            value = self.facts.kept.get(place, NOTHING)
        else:
            value = join(
                *(self.facts.kept.get(Place(it, place.path), NOTHING) for it in self.program.family(place.owner))
            )
        name = place.path.rpartition(".")[2]
        unknown = not of_self and "?" in place.owner
        return Value(
            table=value.table or name == self.facts.mapping or (unknown and name in self.facts.table_names),
            answer=value.answer or (unknown and name in self.facts.answer_names),
            classes=value.classes,
            place=place,
        )


def _telling(callees: Sequence[Function]) -> list[Function]:
    """Those that say themselves what a method of their name gives back: not abstract, not handing the question on."""
    real = [it for it in callees if not _is_abstract(it)]
    return [it for it in real if _last(it) not in it.words] or real


def _last(function: Function) -> str:
    return function.name.rpartition(".")[2]


def _is_abstract(function: Function) -> bool:
    """Whether a body does nothing: a docstring, ``pass``, ``...`` or ``raise``."""
    body = getattr(function.node, "body", [])
    return all(
        isinstance(it, ast.Pass | ast.Raise) or (isinstance(it, ast.Expr) and isinstance(it.value, ast.Constant))
        for it in body
    )


class Expressions:
    """Reads the expressions of one function.

    Attributes:
        env: what local names are, at the point of the function that is being read.
    """

    def __init__(self, program: Program, facts: Facts, log: Log, function: Function) -> None:
        self.program = program
        self.facts = facts
        self.log = log
        self.function = function
        self.resolver = Resolver(program, facts, function)
        self.env: dict[str, Value] = {}

    # What is seen

    def spot(self, node: ast.AST) -> Spot:
        """Where a node stands."""
        known = self.facts.spots.get(node)
        if known is None:
            line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
            known = Spot(self.function.module.source.path, line, column, self.function.name, text_of(node))
            self.facts.spots[node] = known
        return known

    def site(self, kind: Kind, node: ast.AST, detail: str = "") -> None:
        """The mapping is changed or handed out here."""
        self.log.sites.setdefault((kind, self.spot(node)), detail)

    def keep(self, target: Value, value: Value, node: ast.AST, *, fill: bool = False) -> None:
        """`value` is written into what `target` is."""
        if target.param and value.answer:
            self.facts.fill(self.function, target.param)
        if target.place is None:
            return
        place = target.place.whole
        self.facts.keep(place, value)
        if value.answer:
            self.log.stores.append(Store(place, self.spot(node), "fill" if fill else "keep"))
        elif value.neutral or fill:
            self.log.stores.append(Store(place, self.spot(node), "drop"))

    # What expressions are

    def read(self, node: ast.expr | None) -> Value:
        """What an expression may be; what it does is noted."""
        if node is None:
            return NOTHING
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is not None:
            value: Value = method(node)
            return value
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.read(child)
        return NOTHING

    def _constant(self, node: ast.Constant) -> Value:
        return NEUTRAL if node.value is None else NOTHING

    def _name(self, node: ast.Name) -> Value:
        if node.id in self.env:
            return self.env[node.id]
        place = Place("", f"{self.function.module.source.module}.{node.id}")
        value = self.facts.kept.get(place, NOTHING)
        if value.answer:
            self.log.stores.append(Store(place, self.spot(node), "read"))
        return replace(value, place=place) if value != NOTHING else NOTHING

    def _attribute(self, node: ast.Attribute) -> Value:
        above = self.read(node.value)
        if above.table or above.answer:
            return NOTHING if node.attr not in ("T", "data", "values") else above
        place = self._below(above, node.attr)
        of_self = isinstance(node.value, ast.Name) and node.value.id == self.function.self_name
        value = self.resolver.kept_at(place, of_self=of_self)
        getters = [it for owner in above.classes for it in self.program.methods(owner, node.attr) if it.is_property]
        if not above.classes:
            getters = [it for it in self.program.anywhere(node.attr) if it.is_property]
        given = self.resolver.given_back(getters, {}, bool(above.classes))
        value = replace(join(value, given), place=place)
        if value.answer:
            self.log.stores.append(Store(place.whole, self.spot(node), "read"))
        return value

    def _below(self, above: Value, name: str) -> Place:
        if above.classes:
            return Place(min(above.classes), name)
        if above.place is not None:
            return Place(above.place.owner, f"{above.place.path}.{name}")
        return Place(f"{self.function.owner or self.function.module.source.module}?", name)

    def _subscript(self, node: ast.Subscript) -> Value:
        above = self.read(node.value)
        index = self.read(node.slice)
        if above.table:
            if isinstance(node.slice, ast.Constant):
                return NOTHING
            return above if is_constant(node.slice) or index.neutral else Value(answer=True)
        if above.items and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
            return above.items[node.slice.value] if -len(above.items) <= node.slice.value < len(above.items) else above
        place = part_of(above.place, node.slice)
        element = self.resolver.kept_at(place, of_self=False) if place is not None else NOTHING
        return Value(
            answer=above.answer,
            table=element.table,
            classes=element.classes | above.classes,
            place=place,
            param=above.param,
        )

    def _binop(self, node: ast.BinOp) -> Value:
        left, right = self.read(node.left), self.read(node.right)
        if self.function.is_kernel:
            return replace(join(left, right), answer=left.answer or right.answer)
        return Value(answer=left.answer or right.answer or left.table or right.table)

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.read(node.operand)
        return Value(answer=value.answer and not isinstance(node.op, ast.Not))

    def _boolop(self, node: ast.BoolOp) -> Value:
        return join(*(self.read(it) for it in node.values))

    def _ifexp(self, node: ast.IfExp) -> Value:
        self.read(node.test)
        return join(self.read(node.body), self.read(node.orelse))

    def _namedexpr(self, node: ast.NamedExpr) -> Value:
        value = self.read(node.value)
        self.env[node.target.id] = value
        return value

    def _tuple(self, node: ast.Tuple) -> Value:
        items = tuple(self.read(it) for it in node.elts)
        return Value(items=items, answer=bool(items) and all(it.answer for it in items), neutral=not items)

    def _list(self, node: ast.List) -> Value:
        items = [self.read(it.value if isinstance(it, ast.Starred) else it) for it in node.elts]
        self._contain(node, items)
        return Value(answer=any(it.answer for it in items), neutral=all(it.neutral for it in items))

    _set = _list

    def _dict(self, node: ast.Dict) -> Value:
        for key in node.keys:
            self.read(key)
        items = [self.read(it) for it in node.values]
        self._contain(node, items)
        return Value(answer=bool(items) and all(it.answer for it in items), neutral=not items)

    def _contain(self, node: ast.AST, items: list[Value]) -> None:
        if any(it.table for it in items):
            self.site("hand-out", node, "put in a container")

    def _starred(self, node: ast.Starred) -> Value:
        return self.read(node.value)

    def _await(self, node: ast.Await) -> Value:
        return self.read(node.value)

    def _lambda(self, node: ast.Lambda) -> Value:
        before = dict(self.env)
        for arg in node.args.args:
            self.env[arg.arg] = NOTHING
        self.read(node.body)
        self.env = before
        return NOTHING

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        before = dict(self.env)
        for part in node.generators:
            self.bind(part.target, element(self.read(part.iter)))
            for test in part.ifs:
                self.read(test)
        if isinstance(node, ast.DictComp):
            self.read(node.key)
            value = self.read(node.value)
        else:
            value = self.read(node.elt)
        self.env = before
        return Value(answer=value.answer, classes=value.classes)

    _listcomp = _setcomp = _generatorexp = _dictcomp = _comprehension

    def bind(self, target: ast.expr, value: Value) -> None:
        """A local name, or a tuple of them, is `value` from now on."""
        if isinstance(target, ast.Name):
            self.env[target.id] = value
        elif isinstance(target, ast.Starred):
            self.bind(target.value, Value(answer=value.answer))
        elif isinstance(target, ast.Tuple | ast.List):
            items = value.items if len(value.items) == len(target.elts) else ()
            for index, it in enumerate(target.elts):
                self.bind(it, items[index] if items else Value(answer=value.answer and not value.items))

    def assign(self, target: ast.expr, value: Value, node: ast.AST) -> None:
        """`value` is assigned to `target` by the statement or call `node`."""
        raise NotImplementedError

    # Calls

    def _call(self, node: ast.Call) -> Value:
        return read_call(self, node)

    @property
    def modules(self) -> frozenset[str]:
        """Names that are imported modules."""
        return self.function.module.imported - set(self.env)
