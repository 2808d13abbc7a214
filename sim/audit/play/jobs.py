"""Processes that do one job each, and give an account of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import IO, Any

from ...parts.events_file import handed_on
from ...parts.hooks import loaded
from ...targets.base import TargetError

__all__ = ["GRACE_SECONDS", "run_jobs"]

GRACE_SECONDS = 60.0
"""How much longer than its budget a process may take, on top of loading its target: its last tape may be a long one."""


def run_jobs(module: str, jobs: Sequence[dict[str, Any]], limit: float) -> list[Any]:
    """What processes come to, one for each job."""
    running = [_Job(module, {**job, "events": handed_on(), "parent": os.getpid()}, limit) for job in jobs]
    try:
        return [job.account() for job in running]
    finally:
        for job in running:
            job.close()


class _Job:
    """One process. Its streams are files: nobody has to read them while it runs."""

    def __init__(self, module: str, job: dict[str, Any], limit: float) -> None:
        self._seconds = limit
        self._in, self._out, self._log = (tempfile.TemporaryFile() for _ in range(3))  # noqa: SIM115 - see `close`
        self._in.write(json.dumps(job).encode())
        self._in.seek(0)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],  # nothing of the folder that the user is in
            stdin=self._in,
            stdout=self._out,
            stderr=self._log,
            start_new_session=True,
        )

    def account(self) -> Any:
        try:
            code = self._process.wait(self._seconds)
        except subprocess.TimeoutExpired:
            raise TargetError(f"the woven target gave no account within {self._seconds:.0f} s") from None
        if code:
            raise TargetError(f"the woven target could not be played (exit code {code}): {_last(self._log)}")
        self._out.seek(0)
        said = self._out.read()
        if not said:
            events = loaded()
            what = "the target" if events is None else f"{events.path} or the target"
            raise TargetError(f"a process ended in the middle of its job, with exit code 0: {what} does that")
        account = json.loads(said)
        if "error" in account:
            raise TargetError(account["error"])
        return account

    def close(self) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for stream in (self._in, self._out, self._log):
            stream.close()


def _last(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read()[-4096:].decode("utf-8", "replace").strip().splitlines()
    return " ".join(lines[-1].split())[:300] if lines else "it said nothing"
