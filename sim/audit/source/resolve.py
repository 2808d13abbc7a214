"""Which functions a call may reach, as far as names, annotations and what is kept where tell."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace

from .calls import TENSOR_METHODS
from .definitions import Function
from .program import Program
from .values import NOTHING, Facts, Place, Value, join

__all__ = ["Resolver"]


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
    """Whether a body says nothing: a docstring, ``pass``, ``...``, or that somebody else must."""
    body = getattr(function.node, "body", [])
    return all(
        isinstance(it, ast.Pass | ast.Raise) or (isinstance(it, ast.Expr) and isinstance(it.value, ast.Constant))
        for it in body
    )
