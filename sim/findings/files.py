"""The files of a run: findings as tapes, and files that must be writable before the run starts."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from ...models.config import LEVELS
from ..tapes.codec import dumps
from .finding import Finding

__all__ = ["KeepError", "check_file", "check_folder", "check_outputs", "save", "write"]


class KeepError(Exception):
    """A file or folder cannot be written; the message is one line."""


def check_file(path: Path) -> None:
    """Raise KeepError unless `path` can be written. Creates no file."""
    try:
        there = path.resolve()  # where a link leads to, which need not be there yet
        existed = there.exists()
        if there.is_fifo():
            raise OSError("a pipe: it would wait for a reader")
        with there.open("a", encoding="utf-8"):
            pass
        if not existed:
            there.unlink()
    except OSError as error:
        raise _cannot(path, error) from None


def check_outputs(*paths: Path | None, folder: Path | None = None) -> None:
    """Raise KeepError unless all files, and files in the folder, can be written, and each into a file of its own."""
    given = [path for path in paths if path is not None]
    for number, path in enumerate(given):
        if any(_is_same(path, other) for other in given[:number]):
            raise KeepError(f"{path} is given twice, for two different things")
    for path in given:
        check_file(path)
    if folder is not None:
        check_folder(folder)


def _is_same(one: Path, other: Path) -> bool:
    """Whether two paths lead to the same file, through any names and links."""
    try:
        return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))
    except (OSError, RuntimeError):
        return False


def check_folder(path: Path) -> None:
    """Raise KeepError unless files can be created in `path`, which need not exist yet. Creates no file."""
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise _cannot(path, error) from None


def write(path: Path, text: str) -> None:
    """Write a text file, or raise KeepError."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _cannot(path, error) from None


def save(finding: Finding, folder: Path) -> Path:
    """Write a finding's tape into `folder`; the name is the same for the same finding."""
    origin = finding.origin
    parts = [origin.target]
    if origin.mutant is not None:
        parts.append(origin.mutant)
    if origin.scope.level != LEVELS[0]:
        parts += [origin.scope.level, *origin.scope.features]
    drawn = [origin.tape] if origin.tape is not None else [f"seed{origin.seed}", f"tape{origin.index}"]
    parts += [*drawn, finding.cause or finding.divergence.kind]
    path = folder / f"{'-'.join(map(_plain, parts))}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot(folder, error) from None
    write(path, dumps(finding.documented()))
    return path


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-._")[-80:]


def _cannot(path: Path, error: OSError) -> KeepError:
    return KeepError(f"{os.fspath(path)} cannot be written ({error.strerror or error}); give another path")
