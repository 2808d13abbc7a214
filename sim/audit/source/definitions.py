"""Parsed source: the classes and functions that a file defines."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

from .sources import Source, Unread

__all__ = ["Class", "Function", "Module", "parse"]


@dataclass(eq=False)
class Function:
    """A function, a method, the body of a class, or that of a module.

    Attributes:
        name: qualified, as Python has it; ``<module>`` for a module's body.
        owner: name of the class whose `self` it has, or "".
        params: names in order, without `self`.
        words: every name and attribute that it mentions.
    """

    module: Module
    name: str
    owner: str
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module
    params: tuple[str, ...]
    self_name: str
    words: frozenset[str]

    @property
    def decorators(self) -> str:
        """What stands above it, as text."""
        return " ".join(ast.unparse(it) for it in getattr(self.node, "decorator_list", ()))

    @property
    def called(self) -> str:
        """The name by which it is called: for a constructor, that of its class."""
        name = self.name.rpartition(".")[2]
        return self.owner if name == "__init__" else name

    @property
    def is_kernel(self) -> bool:
        """Whether it runs on a GPU: its tensors are addresses."""
        return "jit" in self.decorators

    @property
    def is_property(self) -> bool:
        """Whether reading the attribute calls it."""
        return "property" in self.decorators


@dataclass(eq=False)
class Class:
    """A class of some module."""

    name: str
    bases: tuple[str, ...]
    fields: tuple[str, ...]
    methods: dict[str, Function] = field(default_factory=dict)


@dataclass(eq=False)
class Module:
    """A parsed file."""

    source: Source
    functions: list[Function] = field(default_factory=list)
    classes: list[Class] = field(default_factory=list)
    imported: frozenset[str] = frozenset()


def parse(source: Source) -> Module | Unread:
    """A file's definitions; what Python itself would not compile is not read either."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source.text)
        module = Module(source)
        _Definitions(module).visit_body(tree, "", "")
    except SyntaxError as error:
        return Unread(source.path, f"line {error.lineno}: {error.msg}" if error.lineno else error.msg)
    except (ValueError, RecursionError, MemoryError) as error:
        return Unread(source.path, f"Python cannot parse it ({type(error).__name__})")
    module.functions.append(_function(module, "<module>", "", tree))
    module.imported = frozenset(_imported(tree))
    return module


class _Definitions:
    """Collects what a module defines, also under ``if`` and ``try``."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def visit_body(self, node: ast.AST, prefix: str, owner: str, known: Class | None = None) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                function = _function(self.module, f"{prefix}{child.name}", owner, child)
                self.module.functions.append(function)
                if known is not None:
                    known.methods.setdefault(child.name, function)
                self.visit_body(child, f"{function.name}.<locals>.", owner)
            elif isinstance(child, ast.ClassDef):
                self._class(child, prefix)
            elif isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                self.visit_body(child, prefix, owner, known)

    def _class(self, node: ast.ClassDef, prefix: str) -> None:
        bases = tuple(_last_name(base) for base in node.bases)
        fields = tuple(
            it.target.id for it in node.body if isinstance(it, ast.AnnAssign) and isinstance(it.target, ast.Name)
        )
        known = Class(node.name, bases, fields)
        self.module.classes.append(known)
        self.module.functions.append(_function(self.module, f"{prefix}{node.name}", node.name, node))
        self.visit_body(node, f"{prefix}{node.name}.", node.name, known)


def _function(
    module: Module, name: str, owner: str, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module
) -> Function:
    params: list[str] = []
    self_name = ""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        spec = node.args
        params = [it.arg for it in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
        static = any(_last_name(it) == "staticmethod" for it in node.decorator_list)
        if owner and params and not static and "<locals>" not in name:
            self_name = params.pop(0)
        elif owner and "<locals>" in name:
            self_name = "self"
    return Function(module, name, owner, node, tuple(params), self_name, frozenset(_words(node)))


def _words(node: ast.AST) -> Iterator[str]:
    """Names in a body. That of a class or a module is without its functions, which are read by themselves."""
    outer = isinstance(node, ast.ClassDef | ast.Module)
    todo = [node]
    while todo:
        it = todo.pop()
        if isinstance(it, ast.Name):
            yield it.id
        elif isinstance(it, ast.Attribute):
            yield it.attr
        elif isinstance(it, ast.arg | ast.keyword) and it.arg:
            yield it.arg
        elif isinstance(it, ast.Constant) and isinstance(it.value, str) and it.value.isidentifier():
            yield it.value
        if it is node or not (outer and isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)):
            todo += ast.iter_child_nodes(it)


def _imported(tree: ast.AST) -> Iterator[str]:
    """Names that are modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name.partition(".")[0]


def _last_name(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript | ast.Call):
        node = node.value if isinstance(node, ast.Subscript) else node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
