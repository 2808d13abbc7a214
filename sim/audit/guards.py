"""Guards in source: statements and expressions that keep a loc right, and the source without each of them.

Invalidations come from the map of a program. There are six other kinds, each of which some engine has missed according
to public reports (docs/INCIDENTS.md):

- ``mask``: a condition that selects tokens, rows or nodes; without it all of them are taken.
- ``sentinel``: the value for "none": an entry that is cleared, a comparison that excludes slot 0.
- ``bound``: an end of a slice, a minimum or maximum, rounding to whole pages, an early exit of a function.
- ``order``: the order of two statements.
- ``view``: a container that is copied before the original changes.
- ``clone``: the same for a tensor.

A statement that only refuses a caller (``assert``, ``raise``) is no guard: no tape breaks a contract.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from .source.program import Function, Spot, text_of
from .source.sites import Map, Reading

__all__ = ["KINDS", "Change", "changes_of", "rewrites_of", "unmatched"]

GuardKind = Literal["invalidation", "mask", "sentinel", "bound", "order", "view", "clone"]

_Looser = Iterator[tuple[GuardKind, ast.expr]]

_COMPARING = ("eq", "ge", "gt", "isin", "le", "logical_and", "logical_not", "logical_or", "lt", "ne")
"""Functions and methods of tensors that return a mask."""

_CONTAINERS = ("list", "dict", "set", "tuple")


def is_sentinel(node: ast.expr) -> bool:
    """Return whether an expression means "none": None, 0 or -1."""
    match node:
        case ast.Constant(value=value):
            return value is None or (type(value) is int and value == 0)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)):
            return True
    return False


class Masks:
    """The masks of a function: comparisons, expressions made of them, and names for these."""

    def __init__(self, function: ast.AST) -> None:
        self._names: set[str] = set()
        for _ in range(2):
            for node in ast.walk(function):
                targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
                if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value and self.has(node.value):
                    self._names.update(it.id for it in targets if isinstance(it, ast.Name))

    def has(self, node: ast.expr) -> bool:
        """Return whether an expression is a mask."""
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
    """Yield `node` with each of its own guards removed, one at a time. Guards inside child expressions are left to the
    children."""
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
    """Remove the ends of a slice that is written to."""
    for open_end in _opened(part):
        yield "bound", ast.Subscript(node.value, open_end, node.ctx)


def _unbound_dimension(node: ast.Subscript, parts: Sequence[ast.expr]) -> _Looser:
    """Remove the ends of slices in an index of several dimensions."""
    for number, part in enumerate(parts):
        if isinstance(part, ast.Slice) and part.step is None:
            for open_end in _opened(part):
                index = [*parts[:number], open_end, *parts[number + 1 :]]
                yield "bound", ast.Subscript(node.value, ast.Tuple(index, ast.Load()), node.ctx)


def _opened(part: ast.Slice) -> Iterator[ast.Slice]:
    """Yield the slice without each of its ends."""
    for lower, upper in ((None, part.upper), (part.lower, None)):
        if (lower, upper) != (part.lower, part.upper):
            yield ast.Slice(lower, upper)


def _one_less(node: ast.BoolOp) -> _Looser:
    if any(isinstance(it, ast.NamedExpr) for it in ast.walk(node)):
        return  # the rest may need the name
    for index in range(len(node.values)):
        rest = node.values[:index] + node.values[index + 1 :]
        yield "mask", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _unfiltered(node: Any) -> _Looser:
    """Yield a comprehension without each of its conditions."""
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


def may_swap(one: ast.stmt, two: ast.stmt) -> bool:
    """Return whether both orders of two statements run, and one changes an object that the other reads or changes."""
    if not all(isinstance(it, ast.Expr | ast.Assign | ast.AugAssign | ast.Delete) for it in (one, two)):
        return False
    stored = _names(one, ast.Store), _names(two, ast.Store)
    if stored[0] & (_names(two, ast.Load) | stored[1]) or stored[1] & _names(one, ast.Load):
        return False
    changed = _changed(one), _changed(two)
    seen = _seen(one) | changed[0], _seen(two) | changed[1]
    return any(_meet(a, b) for i in (0, 1) for a in changed[i] for b in seen[1 - i])


def _meet(one: str, two: str) -> bool:
    """Return whether one object is the other or a part of it."""
    return one == two or one.startswith(f"{two}.") or two.startswith(f"{one}.")


def _names(statement: ast.stmt, context: type[ast.expr_context]) -> set[str]:
    return {it.id for it in ast.walk(statement) if isinstance(it, ast.Name) and isinstance(it.ctx, context)}


def _changed(statement: ast.stmt) -> set[str]:
    """Return the objects that a statement stores into, or calls a method of for its effect only."""
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
    """Return the objects whose attributes a statement reads or whose methods it calls."""
    found = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found.add(_chain(node.func.value))
        elif isinstance(node, ast.Attribute):
            found.add(_chain(node))
    return found - {""}


def _chain(node: ast.expr) -> str:
    """Return ``a.b.c`` for that expression or an element of it; ``""`` for an expression without a name."""
    match node:
        case ast.Subscript(value=it) | ast.Starred(value=it):
            return _chain(it)
        case ast.Attribute(value=it, attr=name):
            above = _chain(it)
            return above and f"{above}.{name}"
        case ast.Name(id=name):
            return name
    return ""


KINDS: tuple[GuardKind, ...] = get_args(GuardKind)

_CLEARING = ("zero_", "fill_", "index_fill_", "masked_fill_")
"""Methods of tensors that clear entries."""


@dataclass(frozen=True)
class Rewrite:
    """A node of a function and its replacement.

    Attributes:
        statement: the innermost statement around the node.
        node: an expression, or `statement` itself.
        new: source of the replacement; ``""`` for nothing. For an order it is the statement that comes first instead.
    """

    kind: GuardKind
    statement: ast.stmt
    node: ast.expr | ast.stmt
    new: str


def rewrites_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Rewrite]:
    """Yield every guard of a function except its invalidations, in the order of its blocks."""
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
    """Yield the expressions of a statement, without those of inner statements, definitions and contracts."""
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
    """Yield guards that are whole statements."""
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


@dataclass(frozen=True)
class Change:
    """The removal of one guard. It gives a mutant of the target, on which a tape must diverge.

    Attributes:
        spot: the statement around the guard.
        line, column: position of `old`, the source that is replaced.
        new: the replacement; ``""`` for nothing. For an order it is the next statement, which then comes first.
        again: number of earlier guards of the function with the same texts.
        sites: numbers of the sites that it guards.
        caches: numbers of the caches that it drops.
    """

    kind: GuardKind
    spot: Spot
    line: int
    column: int
    old: str
    new: str = ""
    again: int = 0
    sites: tuple[int, ...] = ()
    caches: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """A description on one line. It is unique in a program and stays the same when lines move."""
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        told = f": {old} after {new}" if self.kind == "order" else f": {new} for {old}"
        if not new:
            told = f" without {old}"
        return f"{self.spot.function}{told}{f' ({self.again + 1})' if self.again else ''}"


def changes_of(reading: Reading, found: Map, only: str = "*") -> tuple[Change, ...]:
    """Return every guard in functions that handle the mapping, in the order of files and lines.

    Args:
        only: patterns for ``path:function``, with commas; other guards are left alone. A pattern that ends with a name
            takes all guards of that function, whether it handles the mapping itself or through a call.
    """
    sites: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, site in enumerate(found.sites):
        if site.changes:
            sites[site.spot.path, _outer(site.spot.function)].append(number)
    changes = _invalidations(found)
    dropped = {(it.spot.path, it.line, it.column) for it in changes}
    patterns = only.split(",")
    for function in _concerned(reading, [it for it in patterns if it[-1:].isidentifier()]):
        place = function.module.source.path, function.name
        changes += [replace(it, sites=tuple(sites[place])) for it in _others(function, dropped)]
    wanted = (it for it in changes if _matches(it.spot.path, it.spot.function, patterns))
    return tuple(_numbered(sorted(wanted, key=_place)))


def unmatched(reading: Reading, only: str) -> str | None:
    """Return the first of these patterns that no function matches, which is a typing error."""
    functions = [(path, it.name) for path, module in reading.program.modules.items() for it in module.functions]
    return next((it for it in only.split(",") if not any(_matches(*place, [it]) for place in functions)), None)


def _matches(path: str, function: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(f"{path}:{function}", pattern) for pattern in patterns)


def _place(change: Change) -> tuple[str, int, int, int, str]:
    return change.spot.path, change.line, change.column, KINDS.index(change.kind), change.new


def _numbered(changes: list[Change]) -> Iterator[Change]:
    """Number the changes that share a name."""
    met: Counter[tuple[str, str]] = Counter()
    for change in changes:
        key = change.spot.path, change.name
        yield replace(change, again=met[key])
        met[key] += 1


def _invalidations(found: Map) -> list[Change]:
    numbers = {cache.name: number for number, cache in enumerate(found.caches)}
    guards: dict[Spot, tuple[set[int], set[int]]] = {}
    for number, site in enumerate(found.sites):
        for guard in site.guards if site.changes else ():
            sites, caches = guards.setdefault(guard.spot, (set(), set()))
            sites.add(number)
            caches.add(numbers[guard.cache])
    return [
        Change("invalidation", spot, spot.line, spot.column, spot.text, "", 0, tuple(sorted(a)), tuple(sorted(b)))
        for spot, (a, b) in guards.items()
    ]


def _others(function: Function, dropped: set[tuple[str, int, int]]) -> Iterator[Change]:
    """Yield the guards of the other kinds in one function."""
    assert isinstance(function.node, ast.FunctionDef | ast.AsyncFunctionDef)
    path = function.module.source.path
    for it in rewrites_of(function.node):
        line, column = it.node.lineno, it.node.col_offset
        if it.node is it.statement and it.kind != "order" and (path, line, column) in dropped:
            continue  # this invalidation is a change already
        statement = it.statement
        spot = Spot(path, statement.lineno, statement.col_offset, function.name, text_of(statement))
        yield Change(it.kind, spot, line, column, ast.unparse(it.node), it.new)


def _concerned(reading: Reading, named: Sequence[str]) -> list[Function]:
    """Return the functions in which the mapping or a cached translation is changed, kept, read, passed or returned, and
    those that patterns name.

    Constructors and other special methods are excluded: nothing is cached before an object is made.
    """
    facts = reading.facts
    places = {(spot.path, spot.function) for _, spot in reading.log.sites}
    places |= {(it.spot.path, it.spot.function) for it in reading.log.stores}
    given = [function for (function, _), value in facts.params.items() if value.table or value.answer]
    returning = {
        function
        for function, value in facts.returns.items()
        if value.table or value.answer or any(it.table or it.answer for it in value.items)
    }
    asking = [caller for caller, callee, _ in reading.log.calls if callee in returning]
    for function in (*given, *returning, *asking, *(it for it, _ in facts.fills)):
        places.add((function.module.source.path, function.name))
    outer = {(path, _outer(name)) for path, name in places}
    tables = facts.table_names | {place.attribute for place, value in facts.kept.items() if value.table}
    return [
        function
        for _, module in sorted(reading.program.modules.items())
        for function in module.functions
        if (
            (function.module.source.path, function.name) in outer
            or function.words & tables
            or _matches(function.module.source.path, function.name, named)
        )
        and "<locals>" not in function.name
        and isinstance(function.node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not function.name.endswith("__")
        and not function.is_kernel
    ]


def _outer(function: str) -> str:
    """Return the method or function around a nested one."""
    return function.partition(".<locals>")[0]
