"""The first panic of an engine's Rust code, from what it writes to standard error.

A panic poisons the locks that were held, so the exception that comes out at last may only tell of a poisoned lock. The
panic itself is printed when it happens. A worker's standard error is a file, so the worker can read it again.
"""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

__all__ = ["Panic", "begin", "first_panic"]

_STDERR = 2

MAX_READ = 1 << 20
"""Bytes of one tape's output that are searched."""

_PANIC = re.compile(
    r"panicked at (?P<file>[^\s:']+):(?P<line>\d+):\d+:\n(?P<said>.*)"
    r"|panicked at '(?P<before>.*?)', (?P<path>[^\s:]+):(?P<number>\d+):\d+",
)
"""What Rust prints, since 1.73 and before."""

_start = 0


class Panic(NamedTuple):
    """A panic: the place in the Rust source, and its message."""

    place: str
    message: str


def begin() -> None:
    """A tape begins: what was printed before does not belong to it."""
    global _start
    _start = _size()


def first_panic() -> Panic | None:
    """The first panic since `begin`; None if there was none, or if standard error is no file that can be read."""
    try:
        printed = os.pread(_STDERR, min(MAX_READ, _size() - _start), _start) if _size() > _start else b""
    except OSError:
        return None
    found = _PANIC.search(printed.decode("utf-8", "replace"))
    if found is None:
        return None
    file, line = found["file"] or found["path"], found["line"] or found["number"]
    return Panic(f"{file}:{line}", (found["said"] or found["before"] or "").strip())


def _size() -> int:
    try:
        known = os.fstat(_STDERR)
    except OSError:
        return 0
    return known.st_size if stat.S_ISREG(known.st_mode) else 0
