"""Which two statements may stand the other way round, so that it can matter."""

from __future__ import annotations

import ast

__all__ = ["may_swap"]


def may_swap(one: ast.stmt, two: ast.stmt) -> bool:
    """Whether both orders run, and one of the two changes an object that the other looks at or changes."""
    if not all(isinstance(it, ast.Expr | ast.Assign | ast.AugAssign | ast.Delete) for it in (one, two)):
        return False
    stored = _names(one, ast.Store), _names(two, ast.Store)
    if stored[0] & (_names(two, ast.Load) | stored[1]) or stored[1] & _names(one, ast.Load):
        return False
    changed = _changed(one), _changed(two)
    seen = _seen(one) | changed[0], _seen(two) | changed[1]
    return any(_meet(a, b) for i in (0, 1) for a in changed[i] for b in seen[1 - i])


def _meet(one: str, two: str) -> bool:
    """Whether one object is, or is part of, the other."""
    return one == two or one.startswith(f"{two}.") or two.startswith(f"{one}.")


def _names(statement: ast.stmt, context: type[ast.expr_context]) -> set[str]:
    return {it.id for it in ast.walk(statement) if isinstance(it, ast.Name) and isinstance(it.ctx, context)}


def _changed(statement: ast.stmt) -> set[str]:
    """Objects that it stores into, or calls a method of for nothing but its effect."""
    found = {
        _chain(node)
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del)
    }
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        function = statement.value.func
        found.add(_chain(function.value) if isinstance(function, ast.Attribute) else "")
    return found - {""}


def _seen(statement: ast.stmt) -> set[str]:
    """Objects whose attributes it reads, or whose methods it calls."""
    found = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found.add(_chain(node.func.value))
        elif isinstance(node, ast.Attribute):
            found.add(_chain(node))
    return found - {""}


def _chain(node: ast.expr) -> str:
    """``a.b.c``, of that or of an element of it; ``""`` for what has no name."""
    match node:
        case ast.Subscript(value=it) | ast.Starred(value=it):
            return _chain(it)
        case ast.Attribute(value=it, attr=name):
            above = _chain(it)
            return above and f"{above}.{name}"
        case ast.Name(id=name):
            return name
    return ""
