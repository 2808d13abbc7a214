"""Mutants: a target with one small defect put in on purpose, made by editing its source as it is loaded.

An edit names a place by its source text, never by a line number. It must fit exactly one place, or loading fails: a
mutant that silently changes nothing would make every campaign look good.

    target = load_builtin(mutant)          # a mutated builtin target beside the clean one
    transform = Transform(mutant)          # for a loader of real SGLang sources:
    source = transform(module, source)     # once for every module it compiles,
    transform.finish()                     # and then: was every edit made?
"""

from __future__ import annotations

import ast
import functools
import importlib
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Literal

from ..base import HOST, Profile, Target

__all__ = ["Edit", "Mutant", "MutantError", "Transform", "builtin_root", "load_builtin", "load_changed"]

_TARGETS = __name__.removesuffix(".mutants.transform")
_BUILTIN = f"{_TARGETS}.builtin"


class MutantError(ValueError):
    """An edit does not fit the source; the message names it in one line."""


@dataclass(frozen=True)
class Edit:
    """One change of a source text. Texts are compared as Python writes them back, so layout does not matter.

    Attributes:
        module: full module name; for the builtin target the name inside its package.
        scope: qualified name of the function or class in which the place lies.
        op: ``"drop"`` the statement `old`; ``"replace"`` the statement or expression `old` by `new`; put
            the statements `new` ``"before"`` or ``"after"`` the statement `old`.
        old: one statement or expression that stands in the scope exactly once.
        new: the new source.
        former: other names that `module` has had, in older releases.
    """

    module: str
    scope: str
    op: Literal["drop", "replace", "before", "after"]
    old: str
    new: str = ""
    former: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mutant:
    """A defect by name.

    Attributes:
        target: ``"builtin"`` or ``"sglang"``.
        edits: made together.
        pool: `Config.pool` on which it shows.
        policies: values of `Config.policy` with which it shows.
        story: one sentence: the defect, and where real code had it.
        events: kinds of the events needed to show it, in addition to allocations and forwards.
        releases: for SGLang, a version specifier of the releases whose source the edits fit.
        level: `Config.level` at which it shows.
        features: `Config.features` with which it shows.
        host: it shows with a host tier only.
        checks: `Config.checks` without which nothing sees it.
    """

    name: str
    target: Literal["builtin", "sglang"]
    edits: tuple[Edit, ...]
    pool: str
    policies: tuple[str, ...]
    story: str
    events: tuple[str, ...] = ()
    releases: str = ""
    level: str = "allocator"
    features: tuple[str, ...] = ()
    host: bool = False
    checks: tuple[str, ...] = ()

    @property
    def asks(self) -> tuple[str, ...]:
        """What ``--features`` has to ask for; see `Profile.asks`."""
        return (*self.features, *([HOST] if self.host and "disagg" in self.features else []))

    def profiles(self, profiles: Iterable[Profile]) -> tuple[Profile, ...]:
        """The target's profiles with which the mutant shows, restricted to its policies."""
        wanted = (self.level, self.features, self.pool)
        fitting = (it for it in profiles if (it.level, it.features, it.pool) == wanted and (it.host or not self.host))
        cut = (replace(p, policies=tuple(name for name in p.policies if name in self.policies)) for p in fitting)
        return tuple(profile for profile in cut if profile.policies)


class Transform:
    """A mutant's edits as a function from sources to sources."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._missing = {edit.module: edit for edit in mutant.edits}

    def __call__(self, module: str, source: str) -> str:
        """`source` with the edits for `module`; unchanged if there are none.

        Raises:
            MutantError: an edit fits no place, or more than one.
        """
        edits = [edit for edit in self._mutant.edits if module in (edit.module, *edit.former)]
        if not edits:
            return source
        tree = ast.parse(source)
        for edit in edits:
            self._missing.pop(edit.module, None)
            scopes = list(_scopes(tree, edit.scope.split(".")))
            if len(scopes) != 1:
                raise MutantError(f"{self._where(edit)} names {len(scopes)} definitions, not one")
            rewriter = _Rewriter(edit)
            rewriter.generic_visit(scopes[0])
            if rewriter.places != 1:
                raise MutantError(f"{self._where(edit)} fits {rewriter.places} places, not one: {rewriter.old!r}")
        return ast.unparse(ast.fix_missing_locations(tree))

    def finish(self) -> None:
        """Raise MutantError unless every edit was made."""
        for edit in self._missing.values():
            raise MutantError(f"{self._where(edit)} was not made: the module was never loaded")

    def _where(self, edit: Edit) -> str:
        return f"mutant {self._mutant.name}: {edit.op} in {edit.module}, {edit.scope}"


def _scopes(parent: ast.AST, names: Sequence[str]) -> Iterator[ast.AST]:
    """Definitions with this qualified name, also under an ``if`` or ``try``."""
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name == names[0]:
                yield from _scopes(node, names[1:]) if names[1:] else (node,)
        elif isinstance(node, ast.stmt | ast.ExceptHandler):
            yield from _scopes(node, names)


class _Rewriter(ast.NodeTransformer):
    """Makes one edit below a node and counts the fitting places."""

    def __init__(self, edit: Edit) -> None:
        self.edit = edit
        self.places = 0
        old, new = (ast.parse(textwrap.dedent(text).strip()) for text in (edit.old, edit.new))
        self.old = ast.unparse(old)
        self.new = ast.unparse(new)
        self.expression = edit.op == "replace" and all(
            len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr) for tree in (old, new)
        )
        first = old.body[0]
        self.kind = type(first.value) if self.expression and isinstance(first, ast.Expr) else type(first)

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt]:
        if type(node) is self.kind and ast.unparse(node) == self.old:
            self.places += 1
            if self.expression:
                return ast.parse(self.new, mode="eval").body
            return self._statements(node)
        return self.generic_visit(node)

    def _statements(self, node: ast.AST) -> list[ast.stmt]:
        assert isinstance(node, ast.stmt)
        new = ast.parse(self.new).body
        match self.edit.op:
            case "before":
                return [*new, node]
            case "after":
                return [node, *new]
            case _:
                return new or [ast.Pass()]


class _Importer(MetaPathFinder, InspectLoader):
    """Finds the builtin's modules under another package name, their sources transformed."""

    def __init__(self, package: str, root: Path, transform: Callable[[str, str], str]) -> None:
        self.package = package
        self.root = root
        self.transform = transform

    def find_spec(self, fullname: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self.package and not fullname.startswith(f"{self.package}."):
            return None
        return spec_from_loader(fullname, self, is_package=self.is_package(fullname))

    def is_package(self, fullname: str) -> bool:
        return fullname == self.package

    def get_source(self, fullname: str) -> str:
        name = fullname.removeprefix(self.package).removeprefix(".")
        file = self.root / f"{name or '__init__'}.py"
        if not file.is_file():  # a pipe would wait for a writer
            raise ImportError(f"{file} is not a plain file")
        return self.transform(name, file.read_text(encoding="utf-8"))

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_source(fullname), f"<{fullname}>")


def load_builtin(mutant: Mutant) -> Target:
    """A mutated builtin target, for both levels. The clean one stays as it is; both can run in one process.

    Raises:
        MutantError: the mutant is not of the builtin target, or an edit does not fit.
    """
    if mutant.target != "builtin":
        raise MutantError(f"mutant {mutant.name} changes {mutant.target}, not the builtin target")
    target: Target = _load(mutant).BuiltinEngine()
    target.name = f"builtin with {mutant.name}"
    return target


@functools.cache
def _load(mutant: Mutant) -> ModuleType:
    transform = Transform(mutant)
    return load_changed(f"mutant_{mutant.name.replace('-', '_')}", transform, transform.finish)


def builtin_root() -> Path:
    """The folder of the builtin target's sources."""
    spec = find_spec(_BUILTIN)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])


def load_changed(
    name: str,
    transform: Callable[[str, str], str],
    finish: Callable[[], None] = lambda: None,
    root: Path | None = None,
) -> ModuleType:
    """The builtin target's package under another name.

    It is loaded beside the original, inside the package of targets, so that its relative imports work.

    Args:
        name: the name, an identifier; each is loaded once.
        transform: ``transform(module, source) -> source``; modules have their names inside the package.
        finish: called after all modules are loaded; if it raises, they are removed again.
        root: a folder with a copy of its sources, to be loaded instead.
    """
    root = root or builtin_root()
    package = f"{_TARGETS}._{name}"
    importer = _Importer(package, root, transform)
    sys.meta_path.insert(0, importer)
    try:
        module = importlib.import_module(package)
        for path in sorted(root.glob("*.py")):
            if path.stem != "__init__":
                importlib.import_module(f"{package}.{path.stem}")
        finish()
    except BaseException:
        for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
            del sys.modules[name]
        raise
    finally:
        sys.meta_path.remove(importer)
    return module
