"""The files and folders that options name: what is read, what is written, and that no output is an input or another.

The kind of an option says what its value stands for. A command of the class `Command` compares all of them, and looks
whether its outputs can be written, before it does anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

__all__ = ["BASE", "CHECKOUT", "FILE", "FOLDER", "READ", "TAPE", "TAPES", "TARGET", "Command", "Use"]

_SOURCES = {".py", ".pyi", ".so"}
"""How the names of files end that a target in a folder is loaded from."""


@dataclass(frozen=True)
class Use:
    """The files and folders that one value of an option stands for.

    Attributes:
        reads: files that are read, and folders whose sources are.
        writes: files that are written.
        fills: folders into which findings are saved.
        holds: folders whose tapes are read.
    """

    reads: Sequence[Path] = ()
    writes: Sequence[Path] = ()
    fills: Sequence[Path] = ()
    holds: Sequence[Path] = ()


class _Kind(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on only
    """The kind of an option whose value stands for files. Values are checked only when the command begins."""

    def use(self, value: Any) -> Use:
        """What a value stands for."""
        raise NotImplementedError


class _Input(_Kind):
    name = "file"

    def use(self, value: Any) -> Use:
        return Use(reads=[Path(value)])


class _Output(_Kind):
    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        return Path(value)

    def use(self, value: Any) -> Use:
        return Use(writes=[value])


class _Folder(_Output):
    name = "directory"

    def use(self, value: Any) -> Use:
        return Use(fills=[value])


class _Tapes(_Folder):
    def use(self, value: Any) -> Use:
        return Use(reads=[value], holds=[value])


class _Target(_Kind):
    name = "text"

    def use(self, value: Any) -> Use:
        from ..targets.registry import files_of

        return Use(reads=files_of(value))


class _Checkout(_Target):
    def use(self, value: Any) -> Use:
        return Use(reads=[Path(value)]) if os.path.isdir(value) else super().use(value)


class _Base(_Target):
    def use(self, value: Any) -> Use:
        return Use(reads=[Path(value)]) if os.path.isfile(value) else super().use(value)


class _Tape(_Kind):
    name = "text"

    def use(self, value: Any) -> Use:
        from ..run.player import is_scenario

        return Use(reads=() if is_scenario(value) else [Path(value)])


READ = _Input()
"""A file that the command reads."""

FILE = _Output()
"""A file that the command writes, as a `Path`. It may read it, too."""

FOLDER = _Folder()
"""A folder into which the command saves findings, as a `Path`."""

TARGET = _Target()
"""The name of a target, which may name a folder or a wheel."""

TAPES = _Tapes()
"""A folder whose tapes the command reads, as a `Path`."""

CHECKOUT = _Checkout()
"""The name of a target, or a folder with a checkout."""

BASE = _Base()
"""A file of accepted findings, the name of a target, or a git ref."""

TAPE = _Tape()
"""A tape's file, or the name of a scenario."""


class Command(click.Command):
    """A command that begins only if no output is an input or another output, and all outputs can be written."""

    def invoke(self, ctx: click.Context) -> Any:
        files = _Files()
        for param in self.params:
            if isinstance(param.type, _Kind):
                given: Any = ctx.params.get(param.name or "")
                for value in given if param.multiple else () if given is None else (given,):
                    files.add(_shown(param), param.type, value)
        files.check()
        return super().invoke(ctx)


def _shown(param: click.Parameter) -> str:
    return param.opts[0] if isinstance(param, click.Option) else param.human_readable_name


@dataclass
class _Files:
    """The files of one command, each with the option that names it."""

    reads: list[tuple[str, Path]] = field(default_factory=list)
    writes: list[tuple[str, Path]] = field(default_factory=list)
    fills: list[tuple[str, Path]] = field(default_factory=list)
    holds: list[tuple[str, Path]] = field(default_factory=list)

    def add(self, option: str, kind: _Kind, value: Any) -> None:
        use = kind.use(value)
        self.reads += [(option, path) for path in use.reads]
        self.writes += [(option, path) for path in use.writes]
        self.fills += [(option, path) for path in use.fills]
        self.holds += [(option, path) for path in use.holds]

    def check(self) -> None:
        """Raise KeepError for an output that cannot be written, and UsageError for the first conflict."""
        from ..findings.files import check_file, check_folder

        for _, path in self.writes:
            check_file(path)
        for _, path in self.fills:
            check_folder(path)
        try:
            conflict = next(self._conflicts(), None)
        except (OSError, ValueError) as error:
            raise click.UsageError(f"a file cannot be looked at ({error}); give another path") from None
        if conflict is not None:
            raise click.UsageError(f"{conflict}; give another path")

    def _conflicts(self) -> Iterator[str]:
        from ..findings.saves import is_saved_name

        for number, (option, path) in enumerate(self.writes):
            for other, read in self.reads:
                if _is_same(path, read):
                    yield f"{option} {path} is the file that {other} reads"
                if _is_source_in(path, read):
                    yield f"{option} {path} would be one of the sources that {other} reads"
            for other, written in self.writes[:number]:
                if _is_same(path, written):
                    yield f"{option} {path} is the file that {other} writes: it is given twice"
            for other, folder in self.fills:
                if _is_same(path, folder) or _real(path) in _real(folder).parents:
                    yield f"{option} {path} is where {other} needs a folder"
            for other, folder in self.holds:
                if _real(path).suffix == ".json" and _real(path).parent == _real(folder):
                    yield f"{option} {path} is or would be one of the tapes that {other} reads"
        for option, folder in self.fills:
            for other, path in (*self.reads, *self.writes):
                if _real(path).parent == _real(folder) and is_saved_name(path.name):
                    yield f"{other} {path} is named like a finding that {option} {folder} may save there"


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _is_same(one: Path, other: Path) -> bool:
    """Whether two paths lead to the same file, through any names and links."""
    return _real(one) == _real(other) or (one.exists() and other.exists() and one.samefile(other))


def _is_source_in(path: Path, folder: Path) -> bool:
    return path.suffix in _SOURCES and _real(folder) in _real(path).parents
