"""Our own modules as texts inside a script: what some roots import, and the loader that makes them importable there.

Inside a script the package is called ``embedded``, so that it neither finds nor hides an installed staleloc.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType

from ...targets.family import ScriptTarget

__all__ = ["LOADER", "closure", "embedded", "renamed", "sources_of", "stripped"]

Rewrite = Callable[[str, str], str]
"""``(module name, source) -> source``."""

_TOPS = ("staleloc.models", "staleloc.sim")
_IMPORT = re.compile(r"^(\s*)(from|import) staleloc\.", re.MULTILINE)

LOADER = '''
class Embedded(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the modules of SOURCES."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "embedded":
            package = any(other.startswith(name + ".") for other in SOURCES)
            return importlib.machinery.ModuleSpec(name, self, is_package=package)

    def exec_module(self, module):
        name = module.__name__
        source = SOURCES.get(name, "")
        linecache.cache[f"<{name}>"] = (len(source), None, source.splitlines(True), f"<{name}>")
        exec(compile(source, f"<{name}>", "exec"), vars(module))
'''


def closure(roots: Iterable[str], own: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Sources of modules and of all of ours that they import, by name. Packages on the way are left empty.

    Args:
        own: sources that are not ours, by name.
    """
    sources = dict(own)
    pending = [*roots, *(name for module, source in own.items() for name in _imports(module, source))]
    while pending:
        name = pending.pop()
        if name in sources:
            continue
        file = _file(name)
        assert file is not None
        sources[name] = file.read_text(encoding="utf-8")
        pending += _imports(name, sources[name])
    return dict(sorted(sources.items()))


def _file(name: str) -> Traversable | None:
    """A module's file, or None if it is no module (or a package, which stays empty)."""
    top = next((top for top in _TOPS if name.startswith(f"{top}.")), None)
    if top is None:
        return None
    *path, last = name.removeprefix(f"{top}.").split(".")
    file = files(top).joinpath(*path, f"{last}.py")
    return file if file.is_file() else None


def _imports(name: str, source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            parts = name.split(".")[: -node.level] if node.level else []
            module = ".".join([*parts, *([node.module] if node.module else [])])
            found += [module, *(f"{module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return [module for module in found if _file(module) is not None]


def renamed(source: str) -> str:
    """A source that imports from ``embedded`` what it imported from ``staleloc``."""
    return _IMPORT.sub(r"\1\2 embedded.", source)


def stripped(source: str) -> str:
    """A source without docstrings and comments."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            body = [
                statement
                for statement in node.body
                if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
            ]
            node.body = body or [ast.Pass()]
    return ast.unparse(tree) + "\n"


def embedded(name: str, sources: dict[str, str], package: str | None = None) -> str:
    """An assignment to `name` that holds sources by module, readable; under `package` instead of our name if given."""
    if not sources:
        return f"{name} = {{}}"
    items = []
    for module, source in sources.items():
        if package is not None:
            module, source = f"{package}.{module.removeprefix('staleloc.')}", renamed(source)
        items.append(f"{module!r}: {_literal(source)},")
    return "\n".join([f"{name} = {{", *items, "}"])


def sources_of(
    target: ScriptTarget, roots: Iterable[str], prepare: Callable[[str], str], own: Mapping[str, str]
) -> tuple[str, ...]:
    """What stands at a script's end: our modules that it needs, and the engine's that have a defect.

    Args:
        roots: modules of ours that the script imports.
        prepare: from a module of ours to what is shown of it; the target is shown as it is.
        own: sources of the user's that come along as they are, by name.
    """
    known = closure(roots, own)
    as_they_are = {**target.ours, **own}
    sources = {name: as_they_are[name] if name in as_they_are else prepare(source) for name, source in known.items()}
    theirs = () if target.theirs is None else (embedded("MUTATED", dict(target.theirs)),)
    return (embedded("SOURCES", sources, "embedded"), *theirs)


def _literal(text: str) -> str:
    """A text as it stands, line by line, in a literal."""
    text = f"{text.rstrip()}\n"
    if "'''" in text:
        return "'''" + text.replace("\\", "\\\\").replace("'''", "\\'\\'\\'") + "'''"
    raw = "r" if "\\" in text else ""
    return f"{raw}'''{text}'''"
