"""Worker processes: requests, answers, death and hangs; and the worker's streams.

A target can write into any file of its process. So an answer begins with the number that its request brought and is
counted, its length is limited, and there is a time limit. What else comes through the pipe ends the worker.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, BinaryIO, Self, TextIO

from ..core.divergence import Divergence
from ..core.mark import Mark
from ..core.workspace import Workspace
from ..parts import hooks
from ..parts.events_file import handed_on
from ..parts.hooks import CALL, DeclaredError, loaded
from ..targets.base import Profile, Scope, TargetError
from . import isolation
from .isolation import Isolation
from .messages import divergence_from_json, divergence_to_json, profile_from_json

__all__ = [
    "ANSWER_SECONDS", "START_SECONDS", "Channel", "ChildProcess", "WorkerDied", "WorkerHung", "WorkerProcess",
    "WorkerSilent", "kill_workers",
]  # fmt: skip

START_SECONDS = 180.0
"""Time limit for loading a target. A large engine on a cold disk takes a while."""

ANSWER_SECONDS = 30.0
"""Processor time for one tape. Tapes take milliseconds, so a target that uses more hangs."""

WAITING = 10
"""So many times the processor time may pass without an answer. A worker that is stopped, or gets no processor, is no
hang; one that waits for something may be, but nobody can tell."""

ROW_SECONDS = 1e-4
"""Additional time for each slot at each event. Checks look at every slot, and a tape may have a pool of real size."""

MAX_ANSWER = 64 << 20
"""Bytes of an answer."""

LOG_BYTES = 1 << 20
"""Bytes of the worker's log that are kept between two requests."""

END_SECONDS = 10.0
"""Seconds that a process may take to end when it has closed its pipe."""

_LAST_WORDS = 4096

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
    """The process used up its processor time without an answer, and was killed."""


class WorkerSilent(Exception):
    """The process did not answer for long and hardly used the processor, and was killed. This is no verdict."""


@cache
def _spawner() -> ThreadPoolExecutor:
    """The one thread that starts processes: they end with the thread that started them, so it must not end."""
    return ThreadPoolExecutor(1, "spawner")


@cache
def _workspace() -> Workspace:
    """Where the folders of this process's workers lie."""
    workspace = Workspace("staleloc-run-")
    atexit.register(workspace.remove)
    return workspace


class ChildProcess:
    """A module of this package that runs as a process and answers with lines of JSON.

    Its arguments are for a `Channel`. Use as a context manager.

    Args:
        module: name of the module.
        job: its one request, which may be of any size; None for requests through a pipe.
    """

    def __init__(self, module: str, job: dict[str, Any] | None = None) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._pending = bytearray()
        self._nonce = ""
        self._number = 0
        self._mark: Mark | None = None
        self._folder: str | None = None
        self._process: subprocess.Popen[bytes]
        try:
            _spawner().submit(self._start, module, job).result()
        except OSError as error:
            self._clean()
            raise TargetError(f"a worker could not be started: {error}") from None
        assert self._process.stdout is not None
        self._out = self._process.stdout.fileno()

    def _start(self, module: str, job: dict[str, Any] | None) -> None:
        how = isolation.chosen()
        self._folder = tempfile.mkdtemp(dir=_workspace().path)
        home = os.path.join(self._folder, "home")
        os.mkdir(home)
        if loaded() is not None:
            self._mark = Mark.in_file(self._mark_file)
        with contextlib.ExitStack() as stack:
            requests: int | BinaryIO = subprocess.PIPE
            if job is not None:
                requests = stack.enter_context(tempfile.TemporaryFile())  # a pipe would have to be read meanwhile
                requests.write(self._framed(job))
                requests.seek(0)
            self._process = subprocess.Popen(
                # -P: no modules from the user's folder
                [sys.executable, "-P", "-m", module, str(os.getpid()), how.value],
                stdin=requests,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=isolation.environment_of(home, os.environ, how),
                cwd=os.getcwd() if how is Isolation.TRUSTED else home,
                start_new_session=True,
            )
        _running.add(self)

    @property
    def _mark_file(self) -> str:
        assert self._folder is not None
        return os.path.join(self._folder, "mark")

    def _framed(self, request: dict[str, Any]) -> bytes:
        """A request with a new number, which its answers must begin with."""
        self._nonce, self._number = secrets.token_hex(8), 0
        mark = None if self._mark is None else self._mark_file
        return json.dumps({**request, "nonce": self._nonce, "mark": mark}).encode() + b"\n"

    def send(self, request: dict[str, Any]) -> None:
        """Send a request.

        Raises:
            WorkerDied: the process no longer runs.
        """
        assert self._process.stdin is not None
        if os.fstat(self._log.fileno()).st_size > LOG_BYTES:
            os.truncate(self._log.fileno(), 0)
        try:
            self._process.stdin.write(self._framed(request))
            self._process.stdin.flush()
        except OSError:
            raise self._died() from None

    def receive(self, seconds: float, processor: float | None = None) -> Any:
        """Return the next answer.

        Args:
            seconds: how long to wait.
            processor: seconds of processor time that the process may use meanwhile; None for no limit.

        Raises:
            WorkerDied: the process ended.
            WorkerHung: it used up its processor time.
            WorkerSilent: the time is over.
            DeclaredError: the same, because of a function of the file for ``--events``.
            TargetError: the answer is an error, or none of the worker; the process was ended.
        """
        patience = _Patience(self, seconds, processor)
        searched = 0
        while (end := self._pending.find(b"\n", searched)) < 0:
            searched = len(self._pending)
            if searched > MAX_ANSWER:
                raise self._foreign(f"more than {MAX_ANSWER >> 20} MiB in one line")
            ready, _, _ = select.select([self._out], [], [], patience.pause())
            if ready:
                chunk = os.read(self._out, 1 << 20)
                if not chunk:
                    raise self._died()  # or it has closed the pipe
                self._pending += chunk
            if not ready or patience.over():
                patience.check()
        line = bytes(self._pending[:end])
        del self._pending[: end + 1]
        answer = self._unframed(line)
        if "error" in answer:
            self.close()
            raise TargetError(str(answer["error"]))
        return answer

    def _unframed(self, line: bytes) -> dict[str, Any]:
        frame = f"{self._nonce} {self._number} ".encode()
        if not line.startswith(frame):
            raise self._foreign(repr(line[:40])[1:])
        self._number += 1
        try:
            answer = json.loads(line[len(frame) :])
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise self._foreign("an answer that is no JSON object")
        return answer

    def _foreign(self, what: str) -> TargetError:
        self.close()
        return TargetError(f"the target wrote to the pipe of its worker's answers ({what}); nothing of it counts")

    def used(self) -> float | None:
        """Seconds of processor time that the process has used; None if this system does not tell."""
        try:
            with open(f"/proc/{self._process.pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            return None
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def hook(self) -> tuple[int, str]:
        """The number of the call, and what of the file for ``--events`` runs in it."""
        return (0, "") if self._mark is None else self._mark.read()

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
        self._clean()

    def _clean(self) -> None:
        self._log.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _died(self) -> Exception:
        try:
            code = self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.close()
            return TargetError("the target closed the pipe of its worker's answers")
        self.kill()
        _running.discard(self)
        died = WorkerDied(code, self._last_words())
        _, hook = self.hook()
        if not hook or code == -signal.SIGKILL or (code < 0 and hook.endswith(CALL)):
            return died  # a crash of the engine inside a call is the engine's, and SIGKILL comes from outside
        self.close()
        return DeclaredError(f"{hook}: it ended the process: {str(died).removeprefix('the worker ')}")

    def _last_words(self) -> str:
        """Return the last line that the process wrote to standard error."""
        size = os.fstat(self._log.fileno()).st_size
        self._log.seek(max(0, size - _LAST_WORDS))
        lines = self._log.read(_LAST_WORDS).decode("utf-8", "replace").strip("\0 \n").splitlines()
        return lines[-1].strip() if lines else ""


class _Patience:
    """How long a worker is waited for."""

    def __init__(self, worker: ChildProcess, seconds: float, processor: float | None) -> None:
        self._worker = worker
        self._seconds = seconds
        self._processor = processor
        self._started = time.monotonic()
        self._began = worker.used() or 0.0
        self._hook = worker.hook()
        self._entered = self._started

    def pause(self) -> float:
        """Seconds until there can be something to check."""
        left = self._seconds - (time.monotonic() - self._started)
        if self._processor is not None:
            left = min(left, self._processor - self._used() + 0.05)
        if self._worker.hook()[0]:
            left = min(left, 1.0)
        return max(0.0, left)

    def over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() - self._started > self._seconds

    def check(self) -> None:
        """Raise if there is no time left; see `ChildProcess.receive`."""
        now = time.monotonic()
        hook = self._worker.hook()
        if hook != self._hook:
            self._hook, self._entered = hook, now
        _, name = hook
        if self._processor is not None and self._used() > self._processor:
            error: Exception = WorkerHung("the target gives no answer, and uses the processor all the time")
        elif self.over():
            error = WorkerSilent(f"the target gave no answer for {self._seconds:.0f} s, and did not use the processor")
        elif name and now - self._entered > hooks.WAITING_SECONDS:
            error = DeclaredError("")
        else:
            return
        self._worker.close()
        if not name:
            raise error
        what = "it, or what it calls, does not return" if name.endswith(CALL) else "it does not return"
        raise DeclaredError(f"{name}: {what}")

    def _used(self) -> float:
        used = self._worker.used()
        return 0.0 if used is None else used - self._began


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
        except WorkerSilent:
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
            WorkerDied, WorkerHung, WorkerSilent: at the tape after the last answer.
            TargetError: the harness cannot drive this target.
        """
        self.send({"op": "run", **scope.to_json(), "seed": seed, "tapes": tapes})
        for _ in tapes:
            yield self._verdict(0.0)

    def play(self, tape_text: str, rows: int = 0) -> dict[str, Any]:
        """Play one tape. Raises the same exceptions as `run`.

        Args:
            rows: slots times events, which is the number of slots that checks look at.
        """
        self.send({"op": "play", "tape": tape_text})
        return self._verdict(rows * ROW_SECONDS)

    def _verdict(self, more: float) -> dict[str, Any]:
        seconds = self._answer_seconds + more
        answer: dict[str, Any] = self.receive(WAITING * seconds, seconds)
        return answer

    def end(self) -> None:
        """End the process, also where `close` would keep it for others."""
        self.close()

    def locate(self, tape_text: str, divergence: Divergence) -> Divergence:
        """Return the divergence of a tape with the place that made the state wrong and its consequences; see
        `parts.locate`.

        Raises the same exceptions as `run`.
        """
        self.send({"op": "locate", "tape": tape_text, "divergence": divergence_to_json(divergence)})
        return divergence_from_json(self.receive(self._answer_seconds)["divergence"])


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Channel:
    """The worker's side: its requests, and the answers to them. Making one sets this process up as a worker.

    Standard input and output are reserved for the protocol, so that the engine can neither read requests nor write into
    the answers: it reads nothing, and its output goes to standard error, that of C code too. torch gets one thread.

    Args:
        arguments: of the process: the process id of its parent, with which it ends, and an `Isolation`.
    """

    def __init__(self, arguments: list[str]) -> None:
        isolation.enter(Isolation(arguments[1]), int(arguments[0]))
        self._requests = os.fdopen(os.dup(0), encoding="utf-8")
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        self._answers: TextIO = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        self._nonce = ""
        self._number = 0
        import torch

        torch.set_num_threads(1)

    def requests(self) -> Iterator[dict[str, Any]]:
        """The requests, until there are no more."""
        for line in self._requests:
            request = json.loads(line)
            self._nonce, self._number = request.pop("nonce"), 0
            yield request

    def answer(self, values: Any) -> None:
        """Answer the last request, once or several times."""
        self._answers.write(f"{self._nonce} {self._number} {json.dumps(values)}\n")
        self._answers.flush()
        self._number += 1
