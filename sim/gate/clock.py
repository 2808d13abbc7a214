"""The one time limit of a gate."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Clock"]

RESERVE = 0.06
RESERVE_SECONDS = 8.0
MOST_RESERVE = 0.2
"""Part of the limit that is kept for the search for places and for the reports; at least so many seconds, and never
more than a fifth."""


GRACE = 0.03
"""Part of the limit after which a target that does not answer is ended."""

AGAIN_SECONDS = 1.0
"""Seconds until it is ended once more, because a worker that ends may be replaced."""


class Clock:
    """Counts down. Without a limit it has always time left, so that nothing depends on it.

    Args:
        seconds: the limit, or None.
    """

    def __init__(self, seconds: float | None) -> None:
        self._started = time.monotonic()
        self.seconds = seconds
        limit = seconds or 0.0
        self._reserve = min(MOST_RESERVE * limit, max(RESERVE * limit, RESERVE_SECONDS))

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    @property
    def left(self) -> float:
        """Seconds that may still be played."""
        return math.inf if self.seconds is None else self.seconds - self._reserve - self.spent

    @property
    def is_over(self) -> bool:
        """Whether nothing may be played any more."""
        return self.left <= 0

    @property
    def is_late(self) -> bool:
        """Whether the limit itself was passed."""
        return self.seconds is not None and self.spent >= self.seconds

    def share(self, parts: int, rest: float = 0.0) -> float | None:
        """Return the seconds of one of several equal shares of the time until `rest` seconds are left; None without a
        limit."""
        return None if self.seconds is None else max(0.0, (self.left - rest) / parts)

    def deadline(self, parts: int, least: float = 0.0) -> float | None:
        """Return the monotonic time at which one of several equal shares ends, or `least` seconds if that is more, but
        never after the limit."""
        share = self.share(parts)
        return None if share is None else time.monotonic() + min(max(share, least), max(self.left, 0.0))

    @contextmanager
    def enforced(self, end: Callable[[], object]) -> Iterator[None]:
        """Call `end` again and again from when the limit was clearly passed, until the block is left."""
        left = threading.Event()

        def watch() -> None:
            assert self.seconds is not None
            wait = self.seconds * (1 + GRACE) - self.spent
            while not left.wait(max(0.0, wait)):
                end()
                wait = AGAIN_SECONDS

        if self.seconds is not None:
            threading.Thread(target=watch, daemon=True).start()
        try:
            yield
        finally:
            left.set()
