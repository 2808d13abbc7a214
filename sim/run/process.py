"""A worker seen from the campaign: start it, ask it, notice when it dies or hangs."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from ..parts.events_file import handed_on
from ..targets.base import Profile, TargetError
from ..targets.scope import Scope
from .wire import profile_from_json

__all__ = ["WorkerDied", "WorkerHung", "WorkerProcess", "kill_workers"]

START_SECONDS = 180.0
"""How long a target may take to load; a large engine on a cold disk takes a while."""

ANSWER_SECONDS = 30.0
"""How long one tape may take. Tapes take milliseconds; beyond this the target hangs."""

ROW_SECONDS = 1e-4
"""What a slot may take at an event on top: checks look at every slot, and a tape may have a pool of real size."""

_running: set[WorkerProcess] = set()


def kill_workers() -> None:
    """Kill every worker that this process has started, from any thread: whoever waits for one sees it die."""
    for worker in tuple(_running):
        worker.kill()


class WorkerDied(Exception):
    """The process ended in the middle of its work.

    Attributes:
        code: its exit code; negative for a signal.
    """

    def __init__(self, code: int, log: str) -> None:
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"exited with code {code}"
        super().__init__(f"the worker {how}{': ' + log if log else ''}")
        self.code = code


class WorkerHung(Exception):
    """The process gave no answer in time; it has been killed."""


class WorkerProcess:
    """One worker with one target. Use as a context manager.

    Attributes:
        profiles: how the target can be driven.
        stand_ins: ``"replaced"`` (leaves of the engine that something else stands in for) and ``"given"``
            (names of stubbed modules that got an answer), each as ``[name, reason]`` pairs.

    Raises:
        TargetError: the target cannot be loaded; the message says why.
    """

    def __init__(self, target: str, mutant: str | None = None, answer_seconds: float = ANSWER_SECONDS) -> None:
        self._answer_seconds = answer_seconds
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        environment = os.environ | {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "staleloc.sim.run.worker", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            start_new_session=True,
        )
        _running.add(self)
        assert self._process.stdout is not None
        self._out = self._process.stdout.fileno()
        self._pending = b""
        try:
            self._send({"op": "open", "target": target, "mutant": mutant, "events": handed_on()})
            opened = self._receive(START_SECONDS)
        except WorkerDied as error:
            self.close()
            raise TargetError(f"{target} could not be loaded: {error}") from None
        except WorkerHung:
            raise TargetError(f"{target} could not be loaded within {START_SECONDS:.0f} s") from None
        except BaseException:
            self.close()
            raise
        self.profiles: list[Profile] = [profile_from_json(profile) for profile in opened["profiles"]]
        self.stand_ins: dict[str, list[list[str]]] = opened["stand_ins"]

    def run(self, scope: Scope, seed: int, tapes: list[int]) -> Iterator[dict[str, Any]]:
        """Play generated tapes; one answer each, in order.

        Raises:
            WorkerDied, WorkerHung: at the tape after the last answer.
            TargetError: the harness cannot drive this target.
        """
        self._send({"op": "run", **scope.to_json(), "seed": seed, "tapes": tapes})
        for _ in tapes:
            yield self._receive(self._answer_seconds)

    def play(self, tape_text: str, rows: int = 0) -> dict[str, Any]:
        """Play one tape; raises as `run`.

        Args:
            rows: slots times events, the work that checking it is.
        """
        self._send({"op": "play", "tape": tape_text})
        return self._receive(self._answer_seconds + rows * ROW_SECONDS)

    def close(self) -> None:
        """End the process and whatever it started."""
        if self._process.returncode is None:
            self.kill()
        self._process.wait()
        _running.discard(self)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._log.close()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _send(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._died() from None

    def _receive(self, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while b"\n" not in self._pending:
            ready, _, _ = select.select([self._out], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self.close()
                raise WorkerHung(f"the target gave no answer for {seconds:.0f} s")
            chunk = os.read(self._out, 1 << 16)
            if not chunk:
                raise self._died()
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            self.close()
            raise TargetError(answer["error"])
        return answer

    def _died(self) -> WorkerDied:
        code = self._process.wait()
        self.kill()
        _running.discard(self)
        return WorkerDied(code, self._last_words())

    def kill(self) -> None:
        """Kill the process, if it still runs, and its children, which outlive it otherwise."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _last_words(self) -> str:
        """The last line the process wrote to standard error."""
        self._log.seek(0)
        lines = self._log.read()[-4096:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip()[:200] if lines else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
