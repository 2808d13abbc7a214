"""Puts a change into a loaded target and takes it out again by exchanging the code of functions."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any

__all__ = ["Functions", "Patch", "changed_code"]

Key = tuple[str, str, int]
"""Module, qualified name and first line. The line is needed because a property's getter and setter share a name."""


class Functions:
    """The functions of a process, by place of definition."""

    def __init__(self) -> None:
        self._known: dict[Key, list[FunctionType]] = {}
        for it in gc.get_objects():
            if type(it) is FunctionType:
                code = it.__code__
                key = str(it.__globals__.get("__name__")), code.co_qualname, code.co_firstlineno
                self._known.setdefault(key, []).append(it)

    def versions(self, module: str, code: CodeType) -> Patch | None:
        """Return a patch of the functions that `code` is another version of. Return None if there is none: it is not
        loaded, or closes over other names."""
        fitting = [
            (function, it)
            for it in _codes(code)
            for function in self._known.get((module, it.co_qualname, it.co_firstlineno), ())
            if function.__code__.co_freevars == it.co_freevars
        ]
        return Patch(fitting) if any(it is code for _, it in fitting) else None


class Patch:
    """Other code for a function and the functions that it made earlier."""

    def __init__(self, versions: Sequence[tuple[FunctionType, CodeType]]) -> None:
        self._before = [(function, function.__code__) for function, _ in versions]
        self._after = versions

    def put_in(self) -> None:
        """Run the changed code from now on."""
        for function, code in self._after:
            function.__code__ = code

    def take_out(self) -> None:
        """Run the original code again."""
        for function, code in self._before:
            function.__code__ = code


def changed_code(source: str, change: Mapping[str, Any], filename: str) -> CodeType | None:
    """Return the code of a function with a change made. Return None if the place does not exist or cannot be removed.

    Args:
        source: source of the whole module.
        change: ``kind``, ``line``, ``column``, ``old`` and ``new`` of a `Change`.
    """
    tree = ast.parse(source)
    outer = _outermost(tree, change["line"], change["column"])
    if outer is None:
        return None
    classes, function = outer
    uses_class = any(isinstance(it, ast.Name) and it.id in ("super", "__class__") for it in ast.walk(function))
    changer = _Changer(change)
    changer.visit(function)
    if not changer.made:
        return None
    if uses_class:  # it closes over its class, and must go on doing so
        function.body.append(ast.If(ast.Constant(False), [ast.Expr(ast.Name("__class__", ast.Load()))], []))
    body: list[ast.stmt] = [function]
    for it in reversed(classes):
        it.bases, it.keywords, it.decorator_list, it.body = [], [], [], body
        body = [it]
    future = [it for it in tree.body if isinstance(it, ast.ImportFrom) and it.module == "__future__"]
    module = ast.fix_missing_locations(ast.Module([*future, *body], []))
    name = ".".join([*(it.name for it in classes), function.name])
    codes = _codes(compile(module, filename, "exec", dont_inherit=True))
    return next(code for code in codes if code.co_qualname == name)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for it in code.co_consts:
        if isinstance(it, CodeType):
            yield from _codes(it)


def _outermost(
    tree: ast.Module, line: int, column: int
) -> tuple[list[ast.ClassDef], ast.FunctionDef | ast.AsyncFunctionDef] | None:
    """Return the outermost function around a position, and the classes around that function."""
    todo: list[tuple[list[ast.ClassDef], ast.AST]] = [([], tree)]
    while todo:
        classes, node = todo.pop()
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                continue
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                ends = (child.lineno, child.col_offset), (child.end_lineno or 0, child.end_col_offset or 0)
                if ends[0] <= (line, column) < ends[1]:
                    return classes, child
            else:
                todo.append(([*classes, child] if isinstance(child, ast.ClassDef) else classes, child))
    return None


class _Changer(ast.NodeTransformer):
    """Makes one change.

    Attributes:
        made: whether the place was found and the change could be made.
    """

    def __init__(self, change: Mapping[str, Any]) -> None:
        self._change = change
        self._where = change["line"], change["column"]
        self.made = False

    def visit(self, node: ast.AST) -> Any:
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                setattr(node, name, self._block(block))
        if not self.made and isinstance(node, ast.expr) and self._is_it(node) and self._change["new"]:
            self.made = True
            new = ast.parse(self._change["new"], mode="eval").body
            if isinstance(node, ast.Subscript) and isinstance(new, ast.Subscript):
                new.ctx = node.ctx  # what is written to is still written to
            return ast.copy_location(new, node)
        return self.generic_visit(node)

    def _is_it(self, node: ast.stmt | ast.expr) -> bool:
        return self._is_at(node) and ast.unparse(node) == self._change["old"]

    def _is_at(self, node: ast.stmt | ast.expr) -> bool:
        return (node.lineno, node.col_offset) == self._where

    def _block(self, block: Sequence[Any]) -> list[Any]:
        """Return the statements of a block, with the change made if its place is among them."""
        statements = list(block)
        for index, it in enumerate(statements):
            if self.made or not isinstance(it, ast.stmt) or not self._is_at(it):
                continue
            if self._change["kind"] == "order":
                statements[index : index + 2] = reversed(statements[index : index + 2])
                self.made = True
            elif not self._change["new"] and _can_go(it):
                statements[index] = ast.copy_location(ast.Pass(), it)
                self.made = True
            break
        return statements


def _can_go(node: ast.stmt) -> bool:
    """Return whether the function still runs without a statement, because it defines no name for later use."""
    if any(isinstance(it, ast.NamedExpr) for it in ast.walk(node)):
        return False
    if isinstance(node, ast.Assign):
        return not any(isinstance(it, ast.Name | ast.Tuple) for it in node.targets)
    return isinstance(node, ast.Expr | ast.Delete | ast.If | ast.AugAssign)
