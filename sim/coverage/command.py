"""The command ``staleloc coverage``: reads the source, plays, and reports."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..run.progress import progress
from ..targets.base import TargetError
from ..targets.family import TargetSpec
from ..targets.registry import parse
from .measure import Plan, measure
from .record import record_of
from .report import Report
from .statements import Function, functions_of
from .table import matches, stale_entries, table_of

__all__ = ["run"]


@dataclass(frozen=True)
class _Sources:
    """The source that coverage counts.

    Attributes:
        functions: path -> functions.
        files: path -> the name that its code has.
    """

    functions: Mapping[str, Sequence[Function]]
    files: Mapping[str, str]
    release: str | None


def run(plan: Plan, only: Sequence[str]) -> Report:
    """Measure the coverage of a target.

    Args:
        only: patterns for ``path`` or ``path:function`` of what is reported; empty for all.

    Raises:
        TargetError: the target cannot be fetched, read or played, or a pattern fits nothing.
    """
    spec = parse(plan.target)
    sources = _read(spec)
    shown = _select(sources.functions, only, plan.target)
    with progress() as show:
        measured = measure(plan, list(sources.files.values()), show.stage, show.campaign)
    lines = {path: measured.lines.get(file, set()) for path, file in sources.files.items()}
    record = record_of(spec.family.name)
    stale = stale_entries(sources.functions, lines, record)
    table = table_of(shown, lines, record)
    python = ".".join(platform.python_version_tuple()[:2])
    return Report(plan.target, sources.release, python, plan.seed, measured, table, stale)


def _read(spec: TargetSpec) -> _Sources:
    tree = spec.family.sources(spec)
    patterns = spec.family.covered
    functions: dict[str, list[Function]] = {}
    for file in sorted(tree.root.rglob("*.py")):
        path = file.relative_to(tree.root).as_posix()
        if matches(patterns, path) and file.is_file():  # a pipe would wait for a writer
            found = [it for it in _functions(file, path) if matches(patterns, path, it.name)]
            if found:
                functions[path] = found
    if not functions:
        raise TargetError(f"{spec.text}: no function in {tree.root} is counted")
    return _Sources(functions, {path: spec.family.code_file(spec, tree, path) for path in functions}, tree.release)


def _functions(file: Path, path: str) -> list[Function]:
    try:
        return functions_of(file.read_text(encoding="utf-8-sig"), path)
    except (SyntaxError, ValueError) as error:
        raise TargetError(f"{path} cannot be read: {' '.join(str(error).split())}") from None


def _select(functions: Mapping[str, Sequence[Function]], only: Sequence[str], target: str) -> dict[str, list[Function]]:
    if not only:
        return {path: list(found) for path, found in functions.items()}
    for pattern in only:
        if not any(matches([pattern], path, it.name) for path, found in functions.items() for it in found):
            raise TargetError(
                f"{target}: nothing that is counted matches {pattern!r}; patterns are PATH or PATH:FUNCTION"
            )
    shown = {path: [it for it in found if matches(only, path, it.name)] for path, found in functions.items()}
    return {path: found for path, found in shown.items() if found}
