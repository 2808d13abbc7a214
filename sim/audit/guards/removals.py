"""Expressions that guard a loc, and the same without the guard."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any, Literal

__all__ = ["GuardKind", "Masks", "is_sentinel", "looser"]

GuardKind = Literal["invalidation", "mask", "sentinel", "bound", "order", "view", "clone"]

_Looser = Iterator[tuple[GuardKind, ast.expr]]

_COMPARING = ("eq", "ge", "gt", "isin", "le", "logical_and", "logical_not", "logical_or", "lt", "ne")
"""Functions and methods of tensors that give a mask."""

_CONTAINERS = ("list", "dict", "set", "tuple")


def is_sentinel(node: ast.expr) -> bool:
    """Whether it says "none": None, 0 or -1."""
    match node:
        case ast.Constant(value=value):
            return value is None or (type(value) is int and value == 0)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)):
            return True
    return False


class Masks:
    """What chooses among the tokens of a function: comparisons, what is made of them, and names for it."""

    def __init__(self, function: ast.AST) -> None:
        self._names: set[str] = set()
        for _ in range(2):
            for node in ast.walk(function):
                targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
                if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value and self.has(node.value):
                    self._names.update(it.id for it in targets if isinstance(it, ast.Name))

    def has(self, node: ast.expr) -> bool:
        """Whether it is a mask."""
        match node:
            case ast.Compare() | ast.NamedExpr(value=ast.Compare()):
                return True
            case ast.Call(func=ast.Attribute(attr=name)):
                return name in _COMPARING
            case ast.UnaryOp(op=ast.Invert(), operand=it) | ast.Subscript(value=it):
                return self.has(it)
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
                return self.has(left) or self.has(right)
            case ast.Name(id=name):
                return name in self._names or "mask" in name
            case ast.Attribute(attr=name):
                return "mask" in name
        return False


def looser(node: ast.expr, masks: Masks) -> _Looser:
    """What `node` is without a guard of its own; those of its parts are theirs."""
    match node:
        case ast.Subscript(ctx=ast.Load(), slice=ast.Slice(step=None) as part):
            yield from _unbound(node.value, part)
        case ast.Subscript(ctx=ast.Store(), slice=ast.Slice(step=None) as part):
            yield from _unbound_target(node, part)
        case ast.Subscript(slice=ast.Tuple(elts=parts)) if any(isinstance(it, ast.Slice) for it in parts):
            yield from _unbound_dimension(node, parts)
        case ast.Subscript(ctx=ast.Load(), slice=index) if masks.has(index):
            yield "mask", node.value
        case ast.BinOp(op=ast.BitAnd(), left=left, right=right) if masks.has(left) or masks.has(right):
            yield "mask", left
            yield "mask", right
        case ast.BoolOp(values=values) if not isinstance(values[-1], ast.Constant | ast.Tuple | ast.List | ast.Dict):
            yield from _one_less(node)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            yield from _unfiltered(node)
        case ast.Compare(left=left, ops=[ast.Gt()], comparators=[other]) if is_sentinel(other):
            yield "sentinel", ast.Compare(left, [ast.GtE()], [other])
        case ast.BinOp(op=ast.Mult(), left=ast.BinOp(left=it, op=ast.FloorDiv(), right=page), right=again):
            if ast.unparse(page) == ast.unparse(again):
                yield "bound", it
        case ast.BinOp(op=ast.Mult(), left=again, right=ast.BinOp(left=it, op=ast.FloorDiv(), right=page)):
            if ast.unparse(page) == ast.unparse(again):
                yield "bound", it
        case ast.BinOp(op=ast.Sub(), left=it, right=ast.BinOp(left=again, op=ast.Mod())):
            if ast.unparse(it) == ast.unparse(again):
                yield "bound", it
        case ast.UnaryOp(
            op=ast.USub(), operand=ast.BinOp(left=ast.UnaryOp(ast.USub(), it), op=ast.FloorDiv(), right=page)
        ):
            yield "bound", ast.BinOp(it, ast.FloorDiv(), page)
        case ast.Call():
            yield from _called(node)


def _unbound(value: ast.expr, part: ast.Slice) -> _Looser:
    ends = part.lower, part.upper
    if ends == (None, None):
        yield "view", value
    elif None in ends:
        yield "bound", value
    else:
        yield "bound", ast.Subscript(value, ast.Slice(None, part.upper), ast.Load())
        yield "bound", ast.Subscript(value, ast.Slice(part.lower, None), ast.Load())


def _unbound_target(node: ast.Subscript, part: ast.Slice) -> _Looser:
    """Ends of a slice that is written to."""
    for open_end in _opened(part):
        yield "bound", ast.Subscript(node.value, open_end, node.ctx)


def _unbound_dimension(node: ast.Subscript, parts: Sequence[ast.expr]) -> _Looser:
    """Ends of slices in an index of several dimensions."""
    for number, part in enumerate(parts):
        if isinstance(part, ast.Slice) and part.step is None:
            for open_end in _opened(part):
                index = [*parts[:number], open_end, *parts[number + 1 :]]
                yield "bound", ast.Subscript(node.value, ast.Tuple(index, ast.Load()), node.ctx)


def _opened(part: ast.Slice) -> Iterator[ast.Slice]:
    """The same slice without one of its ends, for each that it has."""
    for lower, upper in ((None, part.upper), (part.lower, None)):
        if (lower, upper) != (part.lower, part.upper):
            yield ast.Slice(lower, upper)


def _one_less(node: ast.BoolOp) -> _Looser:
    if any(isinstance(it, ast.NamedExpr) for it in ast.walk(node)):
        return  # what is left may need the name
    for index in range(len(node.values)):
        rest = node.values[:index] + node.values[index + 1 :]
        yield "mask", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _unfiltered(node: Any) -> _Looser:
    """A comprehension without one of its conditions."""
    for number, it in enumerate(node.generators):
        for condition in range(len(it.ifs)):
            bare = ast.comprehension(it.target, it.iter, it.ifs[:condition] + it.ifs[condition + 1 :], it.is_async)
            generators = [*node.generators[:number], bare, *node.generators[number + 1 :]]
            yield "mask", type(node)(**{**dict(ast.iter_fields(node)), "generators": generators})


def _called(node: ast.Call) -> _Looser:
    match node:
        case ast.Call(func=ast.Name(id="min" | "max"), args=[_, _, *_] as args, keywords=[]):
            if not any(isinstance(it, ast.Starred) for it in args):
                for index in range(len(args))[::-1]:
                    rest = args[:index] + args[index + 1 :]
                    yield "bound", rest[0] if len(rest) == 1 else ast.Call(node.func, rest, [])
        case ast.Call(func=ast.Attribute(value=it, attr="clamp" | "clip")):
            yield "bound", it
        case ast.Call(func=ast.Attribute(value=it, attr="clone"), args=[]):
            yield "clone", it
        case ast.Call(func=ast.Attribute(value=it, attr="copy"), args=[]):
            yield "view", it
        case ast.Call(func=ast.Name(id=name), args=[ast.Name() | ast.Attribute() as it], keywords=[]):
            if name in _CONTAINERS:
                yield "view", it
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=1), end], keywords=[]):
            yield "sentinel", ast.Call(node.func, [end], [])
