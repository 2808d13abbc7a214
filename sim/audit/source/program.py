"""All source that was parsed, and who may be meant by a call."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .definitions import Class, Function, Module

__all__ = ["Program"]

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
