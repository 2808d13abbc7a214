"""A command with a file for ``--events``, in a process that is watched.

The file runs in the command's own process too, where it could end it with any exit code, or never return. So the
command runs in a fork, and this process tells what became of it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from ..core.lifetime import end_with_parent
from ..core.mark import Mark
from ..parts import hooks
from .text import warn

__all__ = ["supervised"]

TICK = 0.5
"""Seconds between two looks at what runs."""

END_SECONDS = 10.0
"""Seconds that the process may take to end when its work is done."""


def supervised(work: Callable[[], int], file: str) -> int:
    """Do the work in a fork; its exit code, or 2 and one line if the file ends the fork or does not return."""
    mark = Mark.shared()
    result, telling = os.pipe()
    parent = os.getpid()
    if sys.stdout is not None:
        sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(result)
        end_with_parent(parent)
        hooks.show_in(mark)
        code = work()
        os.write(telling, bytes([code]))
        sys.exit(code)
    os.close(telling)
    return _Watch(child, result, mark, file).run()


class _Watch:
    """What becomes of the fork."""

    def __init__(self, child: int, result: int, mark: Mark, file: str) -> None:
        self._child = child
        self._result = result
        self._mark = mark
        self._file = file
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._pass_on)

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        """A terminal sends Ctrl-C to both processes; what else comes is for the fork."""
        if number != signal.SIGINT or os.getpgid(0) != os.getpgid(self._child):
            with suppress(ProcessLookupError):
                os.kill(self._child, number)

    def run(self) -> int:
        """The exit code."""
        code = self._code()
        if code is None:
            return 2
        deadline = time.monotonic() + END_SECONDS
        while time.monotonic() < deadline:
            ended, status = os.waitpid(self._child, os.WNOHANG)
            if ended:
                if os.waitstatus_to_exitcode(status) == code:
                    return code
                break
            time.sleep(0.01)
        else:
            self._end()
        warn(f"{self._file}: it keeps the process from its end, or changes its exit code")
        return 2

    def _code(self) -> int | None:
        """What the fork tells when its work is done; None if it does not, which is told then."""
        seen, since = self._mark.read(), time.monotonic()
        while True:
            ready, _, _ = select.select([self._result], [], [], TICK)
            if ready:
                told = os.read(self._result, 1)
                if told:
                    return told[0]
                self._ended()
                return None
            now, current = time.monotonic(), self._mark.read()
            if current != seen:
                seen, since = current, now
            elif seen[1] and now - since > hooks.WAITING_SECONDS:
                self._end()
                warn(f"{seen[1]}: it does not return")
                return None

    def _ended(self) -> None:
        status = os.waitpid(self._child, 0)[1]
        code = os.waitstatus_to_exitcode(status)
        how = f"with exit code {code}" if code >= 0 else f"by signal {signal.Signals(-code).name}"
        _, name = self._mark.read()
        if name or code >= 0:
            warn(f"{name or self._file}: it ended the process {how}")
        else:
            warn(f"the process was ended {how}")

    def _end(self) -> None:
        os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)
