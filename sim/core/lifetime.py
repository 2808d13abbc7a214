"""A process that ends with the one that started it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

__all__ = ["end_with_parent"]

_WATCH_SECONDS = 0.25
"""Seconds between two checks of the parent."""

_DEATH_SIGNAL = 1


def end_with_parent(parent: int) -> None:
    """End this process with its parent: at once on Linux, elsewhere within a second.

    The kernel's signal comes when the *thread* ends that started this process.

    Args:
        parent: process id of the parent, from the parent itself: the parent may have ended already.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)
