"""What a stand-alone script does around its steps: run them, and end with the code that says whether the bug shows.

It comes along inside the script.
"""

from __future__ import annotations

import faulthandler
import linecache
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from ...parts.by_hand import ByHand, outcome
from ...targets.base import TargetError

__all__ = ["HANG_SECONDS", "run", "run_apart"]

HANG_SECONDS = 60.0
"""How long a step may take where a hang is looked for; an environment variable of this name says otherwise."""

_LOADING_SECONDS = 600.0
"""How long it may take to come to the first step."""

_STEP = b"\xff"
"""Sent before each step; any other byte is the exit code."""


def run(main: Callable[[], int], made_for: str) -> int:
    """Run the steps; the exit code.

    Args:
        main: plays them, and returns 1 if the bug shows, 0 if it does not, 2 if something else does.
        made_for: the target on which the divergence showed.
    """
    try:
        return main()
    except (Exception, SystemExit) as error:  # the engine's own exit code must not pass for ours
        print(_unfit(error, made_for), file=sys.stderr)
        return 2


def run_apart(main: Callable[[], int], made_for: str, bug: str) -> int:
    """The same in a process of its own, which the engine may take with it or keep for good.

    Args:
        bug: the divergence's class.
    """
    seconds = float(os.environ.get("HANG_SECONDS", HANG_SECONDS))
    answer, telling = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _play(main, made_for, telling, seconds)
    os.close(telling)
    code = _wait(answer, seconds)
    if code is None:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code is None:
        print(f"a step did not end within {seconds:g} seconds")
        return outcome("hang", bug)
    if not code:
        print(f"the process ended with {f'signal {-status}' if status < 0 else f'exit code {status}'}")
        return outcome("crash", bug)
    return code[0]


def _play(main: Callable[[], int], made_for: str, telling: int, seconds: float) -> NoReturn:
    """In the other process: run the steps, and tell when one begins and what the exit code is."""

    begun = []

    def before_step() -> None:
        faulthandler.dump_traceback_later(seconds)
        os.write(telling, _STEP)
        begun.append(True)

    def played() -> int:
        try:
            return main()
        except SystemExit as error:
            if begun:  # a step took the process with it
                sys.stdout.flush()
                os._exit(error.code if isinstance(error.code, int) else error.code is not None)
            raise

    ByHand.before_step = staticmethod(before_step)  # type: ignore[method-assign]
    code = run(played, made_for)
    sys.stdout.flush()
    os.write(telling, bytes([code]))
    sys.exit(0)


def _wait(answer: int, seconds: float) -> bytes | None:
    """The exit code, as one byte; none if the other process ended without it, and None if it goes on for ever."""
    limit = _LOADING_SECONDS
    while select.select([answer], [], [], limit)[0]:
        told = os.read(answer, 1)
        if told != _STEP:
            return told
        limit = seconds + 1
    return None


def _unfit(error: BaseException, made_for: str) -> str:
    """One line that says what failed, and at which line of the script."""
    causes = [error, error.__cause__]
    missing = next((cause for cause in causes if isinstance(cause, ModuleNotFoundError)), None)
    name = "" if isinstance(error, TargetError) else f"{type(error).__name__}: "
    why = str(missing) if missing else f"{name}{error}".removesuffix("; the adapter needs an update")
    calls = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    places = [linecache.getline(code.co_filename, line).strip() for code, line in calls if code.co_name == "main"]
    place = places[-1] if places else "its start"
    return f"not played to the end: {' '.join(why.split())} (at: {place}); this script was made for {made_for}"
