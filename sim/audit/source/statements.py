"""Reads a function from its first statement to its last, with what its names are at each of them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from .expressions import Expressions
from .facts import NOTHING, Facts, Log, Place, Store, Value, element, join, part_of
from .program import Function, Program, Spot

__all__ = ["Statements"]

_FIRST = ("__init__", "__post_init__", "__new__", "__init_subclass__")
"""Methods in which an object has not answered anybody yet."""


class Statements(Expressions):
    """Reads one function. What it learns goes to the facts, what it sees to the log.

    Branches are read one after the other and joined; a loop is read twice.
    """

    def __init__(self, program: Program, facts: Facts, log: Log, function: Function) -> None:
        super().__init__(program, facts, log, function)
        self._globals: set[str] = set()
        self._is_first = function.name.rpartition(".")[2] in _FIRST
        self._at_module = isinstance(function.node, ast.Module)
        if function.self_name:
            self.env[function.self_name] = Value(classes=frozenset({function.owner}))
        node = function.node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                if arg.arg != function.self_name:
                    self.env[arg.arg] = self._given(arg)

    def _given(self, arg: ast.arg) -> Value:
        value = self.facts.params.get((self.function, arg.arg), NOTHING)
        return Value(
            table=value.table or arg.arg == self.facts.mapping,
            answer=value.answer,
            classes=self.resolver.annotated(arg.annotation),
            param=arg.arg,
        )

    def read_function(self) -> None:
        """Read all of it."""
        if any(word in self.function.decorators for word in ("cache", "memo")) and not self.function.is_property:
            self.log.memoised.append((self.function, self.spot_of_definition()))
        self._block(self.function.node.body)

    def spot_of_definition(self) -> Spot:
        """Where the function stands."""
        return replace(self.spot(ast.Pass()), line=getattr(self.function.node, "lineno", 1), text=self.function.name)

    def _block(self, body: Sequence[ast.stmt]) -> bool:
        """Read statements; whether what comes after them is reached from their end."""
        return all(self._statement(statement) for statement in body)

    def _statement(self, node: ast.stmt) -> bool:
        match node:
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                self._leave(node)
                return False
            case ast.If():
                self.read(node.test)
                return self._branches([node.body, node.orelse])
            case ast.For() | ast.AsyncFor() | ast.While():
                self._loop(node)
            case ast.Try() | ast.TryStar():
                self._branches([node.body, *(it.body for it in node.handlers), []])
                self._branches([node.orelse, []])
                return self._block(node.finalbody)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    value = self.read(item.context_expr)
                    if item.optional_vars is not None:
                        self.bind(item.optional_vars, value)
                return self._block(node.body)
            case ast.Match():
                self.read(node.subject)
                return self._branches([*(it.body for it in node.cases), []])
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self.env[node.name] = NOTHING
            case _:
                self._simple(node)
        return True

    def _leave(self, node: ast.stmt) -> None:
        if not isinstance(node, ast.Return):
            self.read(getattr(node, "exc", None))
            return
        value = self.read(node.value)
        self.facts.give_back(self.function, value)
        if value.table or any(it.table for it in value.items):
            self.site("hand-out", node, "given back")

    def _branches(self, bodies: Sequence[Sequence[ast.stmt]]) -> bool:
        before = self.env
        after = []
        for body in bodies:
            self.env = dict(before)
            if self._block(body):
                after.append(self.env)
        names = {name for env in after for name in env}
        self.env = {name: join(*(env[name] for env in after if name in env)) for name in names} if after else before
        return bool(after)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        for _ in range(2):
            if isinstance(node, ast.While):
                self.read(node.test)
            else:
                self.bind(node.target, element(self.read(node.iter)))
            self._branches([node.body, []])
        self._branches([node.orelse, []])

    def _simple(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign():
                value = self.read(node.value)
                for target in node.targets:
                    self.assign(target, value, node)
            case ast.AnnAssign():
                value = replace(self.read(node.value), classes=self.resolver.annotated(node.annotation))
                if node.value is not None:
                    self.assign(node.target, value, node)
                elif isinstance(self.function.node, ast.ClassDef) and isinstance(node.target, ast.Name):
                    self.facts.keep(Place(self.function.owner, node.target.id), replace(value, neutral=True))
            case ast.AugAssign():
                self._augmented(node)
            case ast.Delete():
                for target in node.targets:
                    if isinstance(target, ast.Attribute | ast.Subscript):
                        self._drop(self.read(target), node)
            case ast.Global():
                self._globals.update(node.names)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.read(child)

    def _augmented(self, node: ast.AugAssign) -> None:
        value, target = self.read(node.value), self.read(node.target)
        base = self.read(node.target.value) if isinstance(node.target, ast.Subscript) else NOTHING
        if target.table or base.table:
            self.site("write", node)
        elif value.answer:
            self.keep(replace(target, answer=False), value, node, fill=True)

    def _drop(self, value: Value, node: ast.AST) -> None:
        if value.place is not None:
            self.log.stores.append(Store(value.place.whole, self.spot(node), "drop"))

    def assign(self, target: ast.expr, value: Value, node: ast.AST) -> None:
        """An assignment to a name, an attribute, an element or several of them."""
        if isinstance(target, ast.Tuple | ast.List):
            items = value.items if len(value.items) == len(target.elts) else ()
            for index, it in enumerate(target.elts):
                part = items[index] if items else Value(answer=value.answer and not value.items)
                self.assign(it.value if isinstance(it, ast.Starred) else it, part, node)
        elif isinstance(target, ast.Name):
            self._assign_name(target, value, node)
        elif isinstance(target, ast.Attribute):
            self._assign_attribute(target, value, node)
        elif isinstance(target, ast.Subscript):
            self._assign_element(target, value, node)

    def _assign_name(self, target: ast.Name, value: Value, node: ast.AST) -> None:
        place = Place("", f"{self.function.module.source.module}.{target.id}")
        if self._at_module or target.id in self._globals:
            self._keep_at(place, value, node)
        elif isinstance(self.function.node, ast.ClassDef):
            self._keep_at(Place(self.function.owner, target.id), value, node)
        else:
            self.env[target.id] = value

    def _assign_attribute(self, target: ast.Attribute, value: Value, node: ast.AST) -> None:
        above = self.read(target.value)
        if above.table:
            if target.attr == "data":
                self.site("replace", node)
            return
        place = self._below(above, target.attr)
        if target.attr == self.facts.mapping and not value.table:
            self.site("replace", node, self._first_one)
        self._keep_at(place, value, node)
        source = getattr(node, "value", None)
        if isinstance(source, ast.Name) and self.resolver.kept_at(place, of_self=False).table:
            # What was put in the mapping's place is the mapping from now on, under the name that it had, too.
            self.env[source.id] = replace(value, table=True)

    def _keep_at(self, place: Place, value: Value, node: ast.AST) -> None:
        if value.table:
            anew = place.attribute == self.facts.mapping and not self._is_first
            self.site("replace" if anew else "alias", node, f"kept as {place}")
            self.facts.keep(place, value)
        elif self.resolver.kept_at(place, of_self=False).table:
            if place.attribute != self.facts.mapping:
                self.site("replace", node, self._first_one)
            self.facts.keep(place, Value(neutral=True))
        elif value.neutral and (self._is_first or isinstance(self.function.node, ast.ClassDef | ast.Module)):
            self.facts.keep(place, value)
        else:
            self.keep(Value(place=place), value, node)

    @property
    def _first_one(self) -> str:
        return "its first" if self._is_first else ""

    def _assign_element(self, target: ast.Subscript, value: Value, node: ast.AST) -> None:
        above = self.read(target.value)
        self.read(target.slice)
        if above.table:
            constant = isinstance(getattr(node, "value", None), ast.Constant)
            self.site("fill" if constant and isinstance(target.slice, ast.Slice) else "write", node, self._first_one)
        elif value.table:
            self.site("hand-out", node, "put in a container")
        elif isinstance(target.value, ast.Name) and above.place is None and not above.param:
            self.env[target.value.id] = replace(above, answer=above.answer or value.answer)
        elif value.answer or value.neutral:
            place = part_of(above.place, target.slice)
            self.keep(Value(place=place, param=above.param), value, node, fill=value.answer)
