"""The streams of a process that works for another: an engine reads no requests of it, nor writes among its answers."""

from __future__ import annotations

import os
import sys
from typing import TextIO

__all__ = ["own_output"]


def own_output() -> TextIO:
    """Standard output, for the caller alone: whatever else prints writes to standard error from now on, C code too."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return answers
