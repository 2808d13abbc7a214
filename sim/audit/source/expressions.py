"""Reads expressions: what they may be, and what they do on the way."""

from __future__ import annotations

import ast
from dataclasses import replace

from .definitions import Function
from .facts import Kind, Log, Store
from .program import Program
from .resolve import Resolver
from .spots import Spot, text_of
from .torch_calls import read_call
from .values import NEUTRAL, NOTHING, Facts, Place, Value, element, is_constant, join, part_of

__all__ = ["Expressions"]


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
