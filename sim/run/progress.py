"""Progress of a run on standard error: one line that is overwritten, or plain lines from time to time."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from ..core.text import printable
from ..parts.situations import possible
from .campaign import Results

if TYPE_CHECKING:
    from rich.status import Status

__all__ = ["Progress", "progress"]

INTERVAL = 10.0
"""Minimum number of seconds between two plain lines."""


class Progress:
    """Shows nothing. Use as a context manager."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def campaign(self, results: Results) -> None:
        """Show the results of a campaign so far. Called from workers' threads, one at a time."""
        seconds = max(time.monotonic() - self._started, 1e-6)
        reachable = possible(results.profiles)
        seen = sum(1 for name in reachable if results.seen[name])
        self._show(
            f"{results.tapes} tapes, {results.events / seconds:.0f} events/s, "
            f"situations {seen}/{len(reachable)}, {results.diverged} divergent tapes"
        )

    def shrinking(self, number: int, total: int, candidates: int) -> None:
        """Show how many candidates the shrink of divergence `number` of `total` has tried."""
        self._show(f"shrinking divergence {number} of {total}, {candidates} candidates tried")

    def stage(self, text: str) -> None:
        """Show the stage of the run."""
        self._show(text)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the progress line."""

    def _show(self, text: str) -> None:
        """Show a line in place of the last one."""


class PlainProgress(Progress):
    """Progress for logs and pipes: a plain line from time to time."""

    def __init__(self) -> None:
        super().__init__()
        self._last = self._started

    def _show(self, text: str) -> None:
        now = time.monotonic()
        if now - self._last >= INTERVAL:
            self._last = now
            print(f"staleloc: {printable(text)}", file=sys.stderr, flush=True)


class TerminalProgress(Progress):
    """Progress for terminals: one line with a spinner that disappears at the end."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console

        self._status: Status = Console(stderr=True, highlight=False).status("loading the target")

    def __enter__(self) -> Progress:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._status.stop()

    def _show(self, text: str) -> None:
        from rich.markup import escape

        self._status.update(escape(printable(text)))


def progress() -> Progress:
    """Return the progress that suits standard error."""
    capable = sys.stderr.isatty() and os.environ.get("TERM") not in (None, "", "dumb")
    return TerminalProgress() if capable else PlainProgress()
