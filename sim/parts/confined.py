"""Calls that a file for ``--events`` may not make: they end, copy or rearrange the process that runs the file.

They are refused to code of the file itself; what the file calls may make them. What slips through is noticed by the
process that watches this one, see `core.mark`.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

__all__ = ["Refused", "confine", "refused"]

_CALLS: tuple[tuple[ModuleType, tuple[str, ...]], ...] = (
    (os, ("_exit", "abort", "fork", "forkpty", "kill", "killpg", "close", "closerange", "dup2")),
    (os, ("execl", "execle", "execlp", "execlpe", "execv", "execve", "execvp", "execvpe")),
    (signal, ("alarm", "raise_signal", "setitimer", "signal", "pthread_kill")),
    (atexit, ("register",)),
)

_refused: list[str] = []
_confined = ""


class Refused(BaseException):
    """The file has made such a call. No `Exception`: it has to get out."""


def confine(module: str) -> None:
    """From now on refuse these calls to a module by its name."""
    global _confined
    if not _confined:
        for home, names in _CALLS:
            for name in names:
                setattr(home, name, _guard(home, name))
    _confined = module


def refused() -> str | None:
    """A call that was refused, if there was one; it is forgotten then. The file may have caught the refusal."""
    if not _refused:
        return None
    first = _refused[0]
    _refused.clear()
    return first


def _caller() -> str:
    """The module that called the caller of this; ``""`` for the interpreter, as at its end."""
    try:
        return str(sys._getframe(2).f_globals.get("__name__", ""))
    except ValueError:
        return ""


def _guard(home: ModuleType, name: str) -> Callable[..., Any]:
    original: Callable[..., Any] = getattr(home, name)

    @wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        if _caller() == _confined:
            _refused.append(f"it calls {home.__name__}.{name}()")
            raise Refused(_refused[-1])
        return original(*arguments, **named)

    return call
