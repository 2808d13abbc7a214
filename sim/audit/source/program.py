"""Source text of a target, parsed: files, places, classes and functions, and the functions that a name may mean."""

from __future__ import annotations

import ast
import io
import os
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["MAX_BYTES", "Function", "Program", "Source", "Spot", "Unread", "parse", "read_tree", "text_of"]

MAX_BYTES = 4_000_000
"""A larger file is not read: it holds generated tables, not reviewed code."""

SET_ASIDE = frozenset({"test", "tests", "testing", "benchmark", "benchmarks", "__pycache__", "node_modules"})
"""Folders that hold no part of an engine."""


@dataclass(frozen=True)
class Source:
    """A file's text.

    Attributes:
        module: dotted name, as the engine imports it.
        path: relative to the folder that was asked for, with forward slashes.
    """

    module: str
    path: str
    text: str


@dataclass(frozen=True)
class Unread:
    """A file that could not be read, and why, in a few words."""

    path: str
    reason: str


def read_tree(root: Path, package: str) -> Iterator[Source | Unread]:
    """Every Python file below `root` that can be imported by its name, in the order of paths.

    Args:
        root: the folder of a package; links are not followed out of it.
        package: its dotted name, as it is to stand before those of modules.
    """
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name not in SET_ASIDE and name.isidentifier())
        for name in sorted(files):
            if name.endswith(".py") and name.removesuffix(".py").isidentifier():
                yield _read(Path(folder) / name, root, package)


def _read(file: Path, root: Path, package: str) -> Source | Unread:
    path = file.relative_to(root).as_posix()
    try:
        if not file.is_file():
            return Unread(path, "not a plain file")
        if file.stat().st_size > MAX_BYTES:
            return Unread(path, f"larger than {MAX_BYTES // 1_000_000} MB")
        data = file.read_bytes()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except OSError as error:
        return Unread(path, error.strerror or type(error).__name__)
    except (SyntaxError, UnicodeDecodeError, LookupError):
        return Unread(path, "its encoding is not what it says")
    parts = path.removesuffix(".py").split("/")
    if parts[-1] == "__init__":
        parts.pop()
    return Source(".".join(filter(None, [package, *parts])), path, text.removeprefix("\ufeff"))


_MAX_TEXT = 160


@dataclass(frozen=True, order=True)
class Spot:
    """A place in a source.

    Attributes:
        path: of the file, relative to the folder read.
        line: from 1.
        function: qualified name.
        text: the statement or call, on one line.
    """

    path: str
    line: int
    column: int
    function: str
    text: str


def text_of(node: ast.AST) -> str:
    """A statement or expression on one line, cut if it is long."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"


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


_MAX_MEANT = 16
"""Methods of one name, beyond which a call on an unknown object may mean anything."""


class Program:
    """All modules that were parsed so far. Classes are known by their bare name."""

    def __init__(self) -> None:
        self.modules: dict[str, Module] = {}
        self._classes: dict[str, list[Class]] = {}
        self._below: dict[str, set[str]] = {}
        self._methods: dict[str, list[Function]] = {}
        self._functions: dict[str, list[Function]] = {}
        self._known_lines: dict[tuple[str, bool], list[str]] = {}
        self._known_methods: dict[tuple[str, str, bool], list[Function]] = {}
        self._known_names: dict[ast.AST, frozenset[str]] = {}

    def add(self, module: Module) -> None:
        """One more module."""
        for known_before in (self._known_lines, self._known_methods, self._known_names):
            known_before.clear()
        self.modules[module.source.path] = module
        for known in module.classes:
            self._classes.setdefault(known.name, []).append(known)
            for base in known.bases:
                self._below.setdefault(base, set()).add(known.name)
            for name, method in known.methods.items():
                self._methods.setdefault(name, []).append(method)
        for function in module.functions:
            if function.name.isidentifier() and isinstance(function.node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._functions.setdefault(function.name, []).append(function)

    def is_class(self, name: str) -> bool:
        return name in self._classes

    def classes_in(self, annotation: ast.expr) -> frozenset[str]:
        """Classes of the program that an annotation names."""
        if annotation not in self._known_names:
            self._known_names[annotation] = frozenset(filter(self.is_class, _names_in(annotation)))
        return self._known_names[annotation]

    def fields(self, name: str) -> tuple[str, ...] | None:
        """Fields, in order, of a class that takes them as its arguments; None if it has a constructor of its own."""
        lines = self._lines(name, up=True)
        if any("__init__" in known.methods for it in lines for known in self._classes.get(it, ())):
            return None
        return tuple(fld for it in reversed(lines) for known in self._classes.get(it, ()) for fld in known.fields)

    def family(self, name: str) -> list[str]:
        """A class, those it comes from, and those that come from it: the nearest first."""
        above = self._lines(name, up=True)
        return above + [it for it in self._lines(name, up=False) if it not in above]

    def methods(self, owner: str, name: str, *, of_super: bool = False) -> list[Function]:
        """What ``x.name`` may be for an `owner` x: its own or the nearest inherited one, and what overrides that."""
        key = owner, name, of_super
        if key not in self._known_methods:
            self._known_methods[key] = self._find_methods(owner, name, of_super)
        return self._known_methods[key]

    def _find_methods(self, owner: str, name: str, of_super: bool) -> list[Function]:
        above = self._lines(owner, up=True)[of_super:]
        nearest = self._in_classes(above, name)[:1]
        if of_super:
            return nearest
        return nearest + self._in_classes([it for it in self._lines(owner, up=False) if it not in above], name)

    def _in_classes(self, owners: list[str], name: str) -> list[Function]:
        return [known.methods[name] for it in owners for known in self._classes.get(it, ()) if name in known.methods]

    def anywhere(self, name: str) -> list[Function]:
        """Every method of this name, or none if there are too many to mean something."""
        found = self._methods.get(name, [])
        return found if len(found) <= _MAX_MEANT else []

    def functions(self, name: str, near: Module) -> list[Function]:
        """Functions of this name: those of the module itself, or else those of all others."""
        found = self._functions.get(name, [])
        return [it for it in found if it.module is near] or found[:_MAX_MEANT]

    def _lines(self, name: str, *, up: bool) -> list[str]:
        """A class and all above it, or all below it, the nearest first."""
        known = self._known_lines.get((name, up))
        if known is None:
            seen: dict[str, None] = {}
            todo = [name]
            while todo:
                current = todo.pop(0)
                if current and current not in seen:
                    seen[current] = None
                    todo += self._bases(current) if up else sorted(self._below.get(current, ()))
            known = self._known_lines[name, up] = list(seen)
        return known

    def _bases(self, name: str) -> list[str]:
        return [base for known in self._classes.get(name, ()) for base in known.bases]


def _names_in(node: ast.AST) -> Iterator[str]:
    for it in ast.walk(node):
        if isinstance(it, ast.Constant) and isinstance(it.value, str):
            yield it.value.rpartition(".")[2]
        elif isinstance(it, ast.Attribute):
            yield it.attr
        elif isinstance(it, ast.Name):
            yield it.id
