"""Guards in source: what keeps a loc right, and how the source looks without it.

Beside invalidations, which the map of a program has, there are six kinds, each forgotten in some engine on the public
record (docs/INCIDENTS.md):

- ``mask``: a condition that chooses among tokens, rows or nodes; without it all of them are taken.
- ``sentinel``: the value that says "none": an entry that is cleared, a comparison that leaves slot 0 out.
- ``bound``: an end of a slice, a minimum or maximum, the rounding to whole pages, a way out of a function.
- ``order``: of two statements the one that must come first.
- ``view``: a container that is copied before somebody changes the original.
- ``clone``: the same for a tensor.

What only refuses a caller (``assert``, ``raise``) is no guard here: no tape breaks a contract.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

from .order import may_swap
from .removals import GuardKind, Masks, is_sentinel, looser

__all__ = ["KINDS", "GuardKind", "Rewrite", "rewrites_of"]

KINDS: tuple[GuardKind, ...] = get_args(GuardKind)

_CLEARING = ("zero_", "fill_", "index_fill_", "masked_fill_")
"""Methods of tensors that clear entries."""


@dataclass(frozen=True)
class Rewrite:
    """A node of a function, and what is put in its place.

    Attributes:
        statement: the innermost one in which it stands.
        node: an expression, or `statement` itself.
        new: source of what comes in; ``""`` for nothing. For an order the statement that comes first instead.
    """

    kind: GuardKind
    statement: ast.stmt
    node: ast.expr | ast.stmt
    new: str


def rewrites_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Rewrite]:
    """Every guard of a function but its invalidations, in the order of its blocks."""
    masks = Masks(function)
    for body in _blocks(function):
        for index, statement in enumerate(body):
            yield from _whole(statement)
            if index + 1 < len(body) and may_swap(statement, body[index + 1]):
                yield Rewrite("order", statement, statement, ast.unparse(body[index + 1]))
            for node in _expressions(statement):
                for kind, new in looser(node, masks):
                    yield Rewrite(kind, statement, node, ast.unparse(new))


def _blocks(function: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(function):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield block


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """Expressions of a statement, without those of statements and definitions inside it, or of a contract."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Raise() | ast.Assert():
            return
        case ast.If(body=[ast.Raise()], orelse=[]):
            return
    todo = list(ast.iter_child_nodes(statement))
    while todo:
        node = todo.pop(0)
        if isinstance(node, ast.expr):
            yield node
        if not isinstance(node, ast.stmt | ast.Lambda):
            todo += ast.iter_child_nodes(node)


def _whole(statement: ast.stmt) -> Iterator[Rewrite]:
    """Statements that go as a whole."""
    match statement:
        case ast.Assign(targets=targets, value=value) if is_sentinel(value):
            if all(isinstance(it, ast.Subscript | ast.Attribute) for it in targets):
                yield Rewrite("sentinel", statement, statement, "")
        case ast.AugAssign(op=ast.BitAnd()):
            yield Rewrite("mask", statement, statement, "")
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))) if name in _CLEARING:
            yield Rewrite("sentinel", statement, statement, "")
        case ast.If(body=[*before, ast.Return() | ast.Continue() | ast.Break()], orelse=[]):
            if all(isinstance(it, ast.Expr) for it in before):
                yield Rewrite("bound", statement, statement, "")
