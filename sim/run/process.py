"""Worker processes: requests, answers, death and hangs; the worker's streams; and what is sent as JSON."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import IO, Any, Self, TextIO

from ..core.divergence import Divergence, LocRow
from ..parts.events_file import handed_on
from ..targets.base import Profile, Scope, TargetError

__all__ = [
    "ANSWER_SECONDS", "START_SECONDS", "ChildProcess", "WorkerDied", "WorkerHung", "WorkerProcess",
    "divergence_from_json", "divergence_to_json", "end_with_parent", "kill_workers", "profile_from_json",
    "profile_to_json", "worker_streams",
]  # fmt: skip

START_SECONDS = 180.0
"""Time limit for loading a target. A large engine on a cold disk takes a while."""

ANSWER_SECONDS = 30.0
"""Time limit for one tape. Tapes take milliseconds, so a target that takes longer hangs."""

ROW_SECONDS = 1e-4
"""Additional time for each slot at each event. Checks look at every slot, and a tape may have a pool of real size."""

_WATCH_SECONDS = 0.25
"""Seconds between two checks of the parent."""

_running: set[ChildProcess] = set()


def kill_workers() -> None:
    """Kill all workers of this process. Any thread may call this; one that waits for a worker gets `WorkerDied`."""
    for worker in tuple(_running):
        worker.kill()


class WorkerDied(Exception):
    """The process ended during its work.

    Attributes:
        code: its exit code; negative for a signal.
        log: the last line that it wrote to standard error; ``""`` if there is none.
    """

    def __init__(self, code: int, log: str) -> None:
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"exited with code {code}"
        super().__init__(f"the worker {how}{': ' + log[:200] if log else ''}")
        self.code = code
        self.log = log


class WorkerHung(Exception):
    """The process did not answer in time and was killed."""


class ChildProcess:
    """A module of this package that runs as a process and answers with lines of JSON.

    The process id of this process is its argument; see `worker_streams`. Use as a context manager.

    Args:
        module: name of the module.
        requests: the file that becomes the process's standard input; None for a pipe.
    """

    def __init__(self, module: str, requests: IO[bytes] | None = None) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        environment = os.environ | {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(os.getpid())],  # -P: no modules from the user's folder
            stdin=subprocess.PIPE if requests is None else requests,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            start_new_session=True,
        )
        _running.add(self)
        assert self._process.stdout is not None
        self._out = self._process.stdout.fileno()
        self._pending = b""

    def send(self, request: dict[str, Any]) -> None:
        """Send a request.

        Raises:
            WorkerDied: the process no longer runs.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._died() from None

    def receive(self, seconds: float) -> Any:
        """Return the next answer.

        Raises:
            WorkerDied: the process ended.
            WorkerHung: there was no answer within `seconds`.
            TargetError: the answer is an error; the process was ended.
        """
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
        answer = json.loads(line)
        if "error" in answer:
            self.close()
            raise TargetError(answer["error"])
        return answer

    def kill(self) -> None:
        """Kill the process and its children, which would outlive it otherwise."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process and its children."""
        if self._process.returncode is None:
            self.kill()
        self._process.wait()
        _running.discard(self)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _died(self) -> WorkerDied:
        code = self._process.wait()
        self.kill()
        _running.discard(self)
        return WorkerDied(code, self._last_words())

    def _last_words(self) -> str:
        """Return the last line that the process wrote to standard error."""
        self._log.seek(0)
        lines = self._log.read()[-4096:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip() if lines else ""


class WorkerProcess(ChildProcess):
    """A worker with one target.

    Attributes:
        module: the module that runs as the process.
        profiles: how the target can be driven.
        stand_ins: ``"replaced"`` (leaves of the engine that a test double replaces) and ``"given"`` (names of stubbed
            modules that have an answer), each as ``[name, reason]`` pairs.

    Raises:
        TargetError: the target cannot be loaded; the message says why.
    """

    module = "staleloc.sim.run.worker"

    def __init__(self, target: str, mutant: str | None = None, answer_seconds: float = ANSWER_SECONDS) -> None:
        super().__init__(self.module)
        self._answer_seconds = answer_seconds
        try:
            self.send(self._request(target, mutant))
            opened = self.receive(START_SECONDS)
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

    def _request(self, target: str, mutant: str | None) -> dict[str, Any]:
        """Return the request that opens the target."""
        return {"op": "open", "target": target, "mutant": mutant, "events": handed_on()}

    def run(self, scope: Scope, seed: int, tapes: list[int]) -> Iterator[dict[str, Any]]:
        """Play generated tapes and yield one answer for each, in order.

        Raises:
            WorkerDied, WorkerHung: at the tape after the last answer.
            TargetError: the harness cannot drive this target.
        """
        self.send({"op": "run", **scope.to_json(), "seed": seed, "tapes": tapes})
        for _ in tapes:
            yield self.receive(self._answer_seconds)

    def play(self, tape_text: str, rows: int = 0) -> dict[str, Any]:
        """Play one tape. Raises the same exceptions as `run`.

        Args:
            rows: slots times events, which is the number of slots that checks look at.
        """
        self.send({"op": "play", "tape": tape_text})
        answer: dict[str, Any] = self.receive(self._answer_seconds + rows * ROW_SECONDS)
        return answer

    def end(self) -> None:
        """End the process, also where `close` would keep it for others."""
        self.close()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def worker_streams(parent: int) -> tuple[TextIO, TextIO]:
    """Set this process up as a worker and return the streams of its requests and its answers.

    Standard input and output are reserved for the protocol, so that the engine can neither read requests nor write into
    the answers: it reads nothing, and its output goes to standard error, that of C code too. torch gets one thread.

    Args:
        parent: process id of the process that sends the requests. The worker ends with it.
    """
    end_with_parent(parent)
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    import torch

    torch.set_num_threads(1)
    return requests, answers


def end_with_parent(parent: int) -> None:
    """End this process within a second after its parent ends, even during a call of the engine that never returns.

    Call this before anything that takes long.

    Args:
        parent: process id of the parent, from the parent itself: the parent may have ended already.
    """
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


def divergence_to_json(divergence: Divergence) -> dict[str, Any]:
    """Return a divergence as JSON values."""
    return asdict(divergence)


def divergence_from_json(values: dict[str, Any]) -> Divergence:
    """Return the divergence of these JSON values."""
    rows = tuple(LocRow(**row) for row in values["rows"])
    return Divergence(**{**values, "rows": rows, "during": tuple(values["during"]), "state": tuple(values["state"])})


def profile_to_json(profile: Profile) -> dict[str, Any]:
    """Return a profile as JSON values."""
    excluded = {" ".join(parts): why for parts, why in profile.excluded.items()}
    return {**asdict(profile), "events": sorted(profile.events), "excluded": excluded}


def profile_from_json(values: dict[str, Any]) -> Profile:
    """Return the profile of these JSON values."""
    lists = {
        name: tuple(values[name])
        for name in (
            *("policies", "page_sizes", "dtypes", "features"),
            *("spec_versions", "spec_chains", "spec_treeless"),
        )
    }
    excluded = {tuple(parts.split()): why for parts, why in values["excluded"].items()}
    return Profile(**{**values, **lists, "events": frozenset(values["events"]), "excluded": excluded})
