"""The reason why a release cannot be imported, in one line with the remedy."""

from __future__ import annotations

import traceback

from .seal import THIRD_PARTY

__all__ = ["explain"]


def explain(name: str, error: Exception) -> str:
    """The message for an exception from an import.

    Args:
        name: the release's name.
        error: the exception; its traceback has the place.
    """
    text = " ".join(str(error).split())[:200]
    if isinstance(error, ModuleNotFoundError) and error.name in THIRD_PARTY:
        return f"{name} needs the package {error.name}; install the extra: pip install 'staleloc[sglang]'"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{name} has a syntax error: {error.filename}, line {error.lineno}: {error.msg}"
    theirs = [
        f"{frame.f_code.co_filename}, line {line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__", "")).startswith("sglang.")
    ]
    where = f" at {theirs[-1]}" if theirs else ""
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{name} cannot be imported: {what}{where}; mend that place, or else the adapter needs an update"
