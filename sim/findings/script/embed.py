"""Our own modules as texts inside a script: what some roots import, and the loader that makes them importable there.

Inside a script the package is called ``embedded``, so that it neither finds nor hides an installed staleloc.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType

from ...targets.family import ScriptTarget

__all__ = ["LOADER", "PACKAGE", "closure", "embedded", "in_script", "sources_of"]

PACKAGE = "embedded"
"""Our package's name inside a script."""

_TOPS = ("staleloc.models", "staleloc.sim")
_UNFIT = re.compile("[\0\r\ud800-\udfff]")
"""What cannot stand as it is in a literal of a file."""

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
        module.__file__ = f"<{name}>"
        source = SOURCES.get(name, "")
        linecache.cache[f"<{name}>"] = (len(source), None, source.splitlines(True), f"<{name}>")
        exec(compile(source, f"<{name}>", "exec"), vars(module))
'''


def closure(roots: Iterable[str], own: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Sources of modules and of all of ours that they import, by name.

    A package of which only modules are imported, and nothing that it defines itself, is left empty.

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
    """The file of a module or a package, or None if it is neither."""
    top = next((top for top in _TOPS if name.startswith(f"{top}.")), None)
    if top is None:
        return None
    *path, last = name.removeprefix(f"{top}.").split(".")
    folder = files(top).joinpath(*path)
    found = (folder.joinpath(f"{last}.py"), folder.joinpath(last, "__init__.py"))
    return next((file for file in found if file.is_file()), None)


def _imports(name: str, source: str) -> list[str]:
    """Modules of ours that a module imports; a package only if a name of its own is wanted."""
    found = []
    file = _file(name)
    package = name.split(".") if file is not None and file.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            parts = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*parts, *([node.module] if node.module else [])])
            inside = [f"{module}.{alias.name}" for alias in node.names]
            found += [module if _file(name) is None else name for name in inside]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return [module for module in found if _file(module) is not None]


def in_script(module: str) -> str:
    """The name of a module of ours inside a script."""
    return f"{PACKAGE}.{module.removeprefix('staleloc.')}"


def embedded(name: str, sources: Mapping[str, str], ours: bool = False) -> str:
    """An assignment to `name` that holds sources by module, readable; `ours` have another name inside a script."""
    if not sources:
        return f"{name} = {{}}"
    items = []
    for module, source in sources.items():
        if ours:
            module, source = in_script(module), _IMPORT.sub(rf"\1\2 {PACKAGE}.", source)
        items.append(f"{module!r}: {_literal(source)},")
    return "\n".join([f"{name} = {{", *items, "}"])


def sources_of(target: ScriptTarget, roots: Iterable[str], own: Mapping[str, str]) -> tuple[str, ...]:
    """What stands at a script's end: our modules that it needs, and the engine's that have a defect.

    Args:
        roots: modules of ours that the script imports.
        own: sources of the user's that come along as they are, by name.
    """
    known = closure(roots, own)
    sources = {name: target.ours.get(name, source) for name, source in known.items()}
    theirs = () if target.theirs is None else (embedded("MUTATED", target.theirs),)
    return (embedded("SOURCES", sources, ours=True), *theirs)


def _literal(text: str) -> str:
    """A text as it stands, line by line, in a literal."""
    text = f"{text.rstrip()}\n"
    if _UNFIT.search(text):
        return repr(text)
    if "'''" in text:
        return "'''" + text.replace("\\", "\\\\").replace("'''", "\\'\\'\\'") + "'''"
    raw = "r" if "\\" in text else ""
    return f"{raw}'''{text}'''"
