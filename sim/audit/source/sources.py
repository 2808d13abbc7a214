"""Source text as it lies in a folder. Nothing of it is imported or run."""

from __future__ import annotations

import io
import os
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MAX_BYTES", "Source", "Unread", "read_tree"]

MAX_BYTES = 4_000_000
"""A larger file is not read: generated tables, not code that somebody reviews."""

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
