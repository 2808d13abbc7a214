"""Puts calls of counters into source as it is loaded: after the statements of sites, before those of guards, around
what asks a cache."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ..guards.changes import Change
from ..source.sites import Map
from ..source.spots import Spot, text_of
from .notes import NAME

__all__ = ["Hook", "Weaver", "hooks_of"]


Says = Literal["site", "keep", "drop", "read", "guard", "come"]


class Hook(NamedTuple):
    """A call to put in: what it says, the number of the site, cache or guard, and the place."""

    says: Says
    number: int
    line: int
    column: int
    text: str


def hooks_of(found: Map, changes: Sequence[Change]) -> dict[str, list[Hook]]:
    """Path of a file -> what is put into it. Sites and caches have the numbers that they have in `found`, guards those
    of `changes`."""
    hooks: dict[str, list[Hook]] = defaultdict(list)

    def put(says: Says, number: int, spots: Iterable[Spot]) -> None:
        for spot in spots:
            hooks[spot.path].append(Hook(says, number, spot.line, spot.column, spot.text))

    for number, site in enumerate(found.sites):
        if site.changes:
            put("site", number, [site.spot])
    for number, cache in enumerate(found.caches):
        put("keep", number, cache.kept)
        put("drop", number, cache.dropped)
        put("read", number, cache.read)
    for number, change in enumerate(changes):
        put("guard" if change.kind == "invalidation" else "come", number, [change.spot])
    return dict(hooks)


class Weaver:
    """A function from sources to sources, for a loader.

    Args:
        hooks: module -> what is put into it.

    Attributes:
        woven: hooks that found their place, by module.
    """

    def __init__(self, hooks: Mapping[str, Sequence[Hook]]) -> None:
        self._hooks = hooks
        self.woven: dict[str, int] = {}

    def __call__(self, module: str, source: str) -> str:
        """`source` with the calls; unchanged if it has none."""
        hooks = self._hooks.get(module)
        if not hooks:
            return source
        putter = _Putter(hooks)
        tree = putter.visit(ast.parse(source))
        self.woven[module] = len(putter.found)
        return ast.unparse(ast.fix_missing_locations(tree))


class _Putter(ast.NodeTransformer):
    def __init__(self, hooks: Sequence[Hook]) -> None:
        self._hooks: dict[tuple[int, int], list[Hook]] = defaultdict(list)
        for hook in hooks:
            self._hooks[hook.line, hook.column].append(hook)
        self._after: list[Hook] = []
        self.found: set[Hook] = set()

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(it) for it in node.decorator_list):
            return node  # compiled for a GPU from its source: a call of ours has no place in it
        found = self._found(node)
        if isinstance(node, ast.stmt):
            return self._statement(node, found)
        visited = self.generic_visit(node)
        reads = [hook for hook in found if hook.says == "read"]
        self._after += [hook for hook in found if hook.says not in ("read", "come")]
        if isinstance(getattr(node, "ctx", None), ast.Load) and isinstance(visited, ast.expr):
            for hook in reads:
                visited = ast.copy_location(_call(hook, visited), node)
        return visited

    def _statement(self, node: ast.stmt, found: list[Hook]) -> Any:
        outer, self._after = self._after, []
        visited = self.generic_visit(node)
        before = [hook for hook in found if hook.says == "come"]
        after = [*self._after, *(hook for hook in found if hook.says != "come")]
        self._after = outer
        after.sort(key=lambda hook: hook.says == "guard")  # it counts what was dropped before it
        if isinstance(node, ast.Return | ast.Raise):
            before, after = [*before, *after], []
        if not (before or after):
            return visited
        return [*_statements(before, node), visited, *_statements(after, node)]

    def _found(self, node: ast.AST) -> list[Hook]:
        line, column = getattr(node, "lineno", None), getattr(node, "col_offset", None)
        if line is None or column is None or not isinstance(node, ast.stmt | ast.expr):
            return []
        near = self._hooks.get((line, column), [])
        text = text_of(node) if near else ""
        found = [hook for hook in near if hook.text == text]
        self.found.update(found)
        return found


def _statements(hooks: Iterable[Hook], near: ast.stmt) -> list[ast.stmt]:
    return [ast.copy_location(ast.Expr(_call(hook)), near) for hook in dict.fromkeys(hooks)]


def _call(hook: Hook, *values: ast.expr) -> ast.Call:
    function = ast.Attribute(ast.Name(NAME, ast.Load()), hook.says, ast.Load())
    return ast.Call(function, [ast.Constant(hook.number), *values], [])
