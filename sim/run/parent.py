"""Processes that do not outlive the one that started them."""

from __future__ import annotations

import os
import threading
import time

__all__ = ["end_with_parent"]

_INTERVAL = 0.25
"""Seconds between two looks."""


def end_with_parent(parent: int) -> None:
    """End this process within a second when its parent is gone, even in the middle of an engine's call that does not
    come back.

    To be called before anything that takes long.

    Args:
        parent: its process id, as it knows it itself: it may be gone by now.
    """
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_INTERVAL)
    os._exit(1)
