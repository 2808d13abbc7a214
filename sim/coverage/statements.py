"""The statements of a source file that can run, by function.

A statement counts as one line, however long it is; of a compound one that is the header, without its blocks. Statements
of a module or of a class body run when the module is loaded and say nothing about tapes, so only those of functions
count. Not counted: docstrings, ``...``, ``raise NotImplementedError``, blocks for type checkers, functions that have
nothing else, and what the compiler drops. A lambda, a comprehension or a nested function of one line belongs to the
statement around it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType

__all__ = ["Function", "Statement", "functions_of"]

_Definition = ast.FunctionDef | ast.AsyncFunctionDef

_FOR_TYPES = "TYPE_CHECKING"


@dataclass(frozen=True)
class Statement:
    """A statement, by line numbers.

    Attributes:
        first, last: its lines; of a compound statement those of its header.
        text: its first line, without indentation.
        inner: last line of its block, if it is a compound statement; of the first one, if it has several.
        block: last line of the block that it stands in.
    """

    first: int
    last: int
    text: str
    inner: int | None
    block: int


@dataclass(frozen=True)
class Function:
    """A function that has statements that can run.

    Attributes:
        name: qualified name inside the module.
        line: line of its definition.
    """

    name: str
    line: int
    statements: tuple[Statement, ...]


def functions_of(source: str, path: str) -> list[Function]:
    """Return the functions of a file, in the order of their lines.

    Raises:
        SyntaxError: the file is no Python.
    """
    tree = ast.parse(source, path)
    runs = _lines_of(compile(source, path, "exec", dont_inherit=True))
    text = source.splitlines()
    found = []
    for name, node, is_nested in _definitions(tree, "", False):
        if _is_empty(node) or (is_nested and node.body[0].lineno == node.lineno):
            continue
        statements = {it.first: it for it in reversed(list(_statements(node.body, text)))}
        left = [it for _, it in sorted(statements.items()) if runs.intersection(range(it.first, it.last + 1))]
        if left:
            found.append(Function(name, node.lineno, tuple(left)))
    return sorted(found, key=lambda it: it.line)


def _lines_of(code: CodeType) -> set[int]:
    lines = {line for _, _, line in code.co_lines() if line is not None}
    return lines.union(*(_lines_of(it) for it in code.co_consts if isinstance(it, CodeType)))


def _definitions(parent: ast.AST, prefix: str, is_nested: bool) -> Iterator[tuple[str, _Definition, bool]]:
    """Yield the name of each function below a node, its definition, and whether another function contains it."""
    for node in ast.iter_child_nodes(parent):
        if not isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case) or _is_for_types(node):
            continue
        if isinstance(node, _Definition):
            yield prefix + node.name, node, is_nested
        inside = f"{prefix}{node.name}." if isinstance(node, _Definition | ast.ClassDef) else prefix
        yield from _definitions(node, inside, is_nested or isinstance(node, _Definition))


def _statements(block: Sequence[ast.stmt | ast.excepthandler | ast.match_case], text: list[str]) -> Iterator[Statement]:
    """Yield the statements of a block and of the blocks in it, but not those of nested definitions."""
    end = _last(block[-1])
    for node in block:
        if not _counts(node):
            continue
        blocks = _blocks(node)
        first = _first(node)
        last = max(first, _first(blocks[0][0]) - 1) if blocks else _last(node)
        inner = _last(blocks[0][-1]) if blocks else None
        yield Statement(first, last, text[first - 1].strip(), inner, end)
        if not isinstance(node, _Definition | ast.ClassDef):
            for it in blocks:
                yield from _statements(it, text)


def _blocks(node: ast.AST) -> list[list[ast.stmt | ast.excepthandler | ast.match_case]]:
    """Return the blocks of a compound statement; clauses of ``try`` and ``match`` are blocks of one, each."""
    blocks = [getattr(node, "body", None), *([it] for it in getattr(node, "handlers", ()))]
    blocks += [*([it] for it in getattr(node, "cases", ())), getattr(node, "orelse", None)]
    return [it for it in (*blocks, getattr(node, "finalbody", None)) if isinstance(it, list) and it]


def _first(node: ast.stmt | ast.excepthandler | ast.match_case) -> int:
    if isinstance(node, ast.match_case):
        return node.pattern.lineno
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(it.lineno for it in decorators)])


def _last(node: ast.stmt | ast.excepthandler | ast.match_case) -> int:
    if isinstance(node, ast.match_case):
        return _last(node.body[-1])
    return node.end_lineno or node.lineno


def _counts(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    return not (_is_for_types(node) or _is_abstract(node))


def _is_for_types(node: ast.AST) -> bool:
    if not isinstance(node, ast.If):
        return False
    test = node.test
    return (isinstance(test, ast.Name) and test.id == _FOR_TYPES) or (
        isinstance(test, ast.Attribute) and test.attr == _FOR_TYPES
    )


def _is_abstract(node: ast.AST) -> bool:
    if not isinstance(node, ast.Raise) or node.exc is None:
        return False
    raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"


def _is_empty(node: _Definition) -> bool:
    return not any(_counts(it) and not isinstance(it, ast.Pass) for it in node.body)
