"""Processes of this project that begin with torch loaded, as a test run needs hundreds of them.

A worker spends two seconds of processor time before its first tape, most of it on ``import torch``. A server (this file
run as a script) imports torch once and forks for each process that is asked for. What runs in the fork is the same code
as in an interpreter of its own: a module or a script as ``__main__``, with its own arguments, environment, folder and
streams.

`install` makes `subprocess.Popen` start the package's worker processes in this way. Folders that a test has put in
front of the server's ``PYTHONPATH`` are searched first in the fork, and their ``sitecustomize.py`` runs before
anything else.

Each process that uses a release reads all its files to see whether they are as they were unpacked. `remember` lets
this run read them once.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

__all__ = ["Process", "install", "remember", "run", "uninstall"]

_PRELOADED = (
    *("torch", "staleloc.sim.parts.drive", "staleloc.sim.parts.events_file", "staleloc.sim.parts.generate"),
    *("staleloc.sim.run.campaign", "staleloc.sim.run.player", "staleloc.sim.tapes.scenarios"),
    *("staleloc.sim.findings.search", "staleloc.sim.targets.sglang.fetch", "staleloc.sim.targets.sglang.target"),
)
"""Not the embedded target: the audit loads changed copies of its modules."""

_OF_RELEASES = ("msgspec", "psutil", "pydantic")
"""Packages that releases import; the tests of releases skip without them."""

_POPEN = subprocess.Popen

_PACKAGE = "staleloc.sim."

_FETCH = "staleloc.sim.targets.sglang.fetch"

_digests: dict[str, str] = {}
"""Folder of a release -> digest of its sources, for releases that this run has read."""

_read_digest: Callable[[Path], str] | None = None
"""The function that reads the sources, while `install` has another one in its place."""

_lock = threading.Lock()
_path: str | None = None
"""Where the server listens, in a test process once it runs, and in every fork."""
_server: subprocess.Popen[bytes] | None = None
_python_path = os.environ.get("PYTHONPATH")


# ---- the client ----


class Process:
    """A fork of the server, with the part of `subprocess.Popen` that is in use."""

    def __init__(
        self,
        words: Sequence[str],
        stdin: int | IO[Any] | None = None,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        env: dict[str, str] | None = None,
        cwd: str | Path | None = None,
        start_new_session: bool = False,
        without: str | None = None,
    ) -> None:
        self.args = words
        self.returncode: int | None = None
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        self.stderr: IO[bytes] | None = None
        mine: list[int] = []
        if stdin == subprocess.PIPE:
            theirs, ours = os.pipe()
            mine.append(theirs)
            self.stdin, stdin = os.fdopen(ours, "wb"), theirs
        if stdout == subprocess.PIPE:
            ours, theirs = os.pipe()
            mine.append(theirs)
            self.stdout, stdout = os.fdopen(ours, "rb"), theirs
        if stderr == subprocess.PIPE:
            ours, theirs = os.pipe()
            mine.append(theirs)
            self.stderr, stderr = os.fdopen(ours, "rb"), theirs
        fds = [_number(stream, number) for number, stream in enumerate((stdin, stdout, stderr))]
        environment = dict(os.environ) if env is None else env
        request = {
            "words": list(words),
            "env": environment,
            "before": _before(environment),
            "digests": _digests,
            "cwd": os.fspath(cwd) if cwd is not None else os.getcwd(),
            "session": start_new_session,
            "client": os.getpid(),
            "without": without,
        }
        self._answers = socket.socket(socket.AF_UNIX)
        self._answers.connect(_listening())
        text = json.dumps(request).encode()
        socket.send_fds(self._answers, [len(text).to_bytes(4, "big")], fds)
        self._answers.sendall(text)
        for fd in mine:
            os.close(fd)
        self._lines = self._answers.makefile("rb")
        self.pid = int(self._lines.readline())

    def poll(self) -> int | None:
        """The exit code, or None while the process runs."""
        if self.returncode is None and select.select([self._answers], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once there is one."""
        if self.returncode is None:
            if not select.select([self._answers], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(list(self.args), timeout or 0)
            self.returncode = int(self._lines.readline())
            self._lines.close()
            self._answers.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process is known to be over."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process."""
        self.send_signal(signal.SIGKILL)


def _before(environment: dict[str, str]) -> list[str] | None:
    """The folders that ``PYTHONPATH`` has in front of the server's, or None if it is otherwise not the same."""
    folders = [it for it in environment.get("PYTHONPATH", "").split(os.pathsep) if it]
    usual = [it for it in (_python_path or "").split(os.pathsep) if it]
    count = len(folders) - len(usual)
    return folders[:count] if count >= 0 and folders[count:] == usual else None


def _number(stream: int | IO[Any] | None, default: int) -> int:
    if stream is None:
        return default
    if stream == subprocess.DEVNULL:
        raise ValueError("give a file")
    return stream if isinstance(stream, int) else stream.fileno()


def run(
    words: Sequence[str],
    cwd: str | Path | None = None,
    timeout: float = 120,
    without: str | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """As ``python WORDS`` in a process of its own, where WORDS are ``-m``, a module and its arguments, or a script and
    its arguments.

    Args:
        without: a package that cannot be imported there.
        environment: variables that the process has, too.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as log, open(os.devnull) as nothing:
        process = Process(words, nothing, out, log, {**os.environ, **environment}, cwd, without=without)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        texts = []
        for stream in (out, log):
            stream.seek(0)
            texts.append(io.TextIOWrapper(io.BytesIO(stream.read()), encoding="utf-8").read())
        return subprocess.CompletedProcess(list(words), code, *texts)


class _Dispatch(_POPEN):  # type: ignore[type-arg, misc]
    """`subprocess.Popen`, but for the package's own workers."""

    def __new__(cls, args: Any, *rest: Any, **options: Any) -> Any:
        if not rest and _is_worker(args, options):
            return Process(args[2:], **options)
        return super().__new__(cls)


def _is_worker(args: Any, options: dict[str, Any]) -> bool:
    return (
        isinstance(args, list)
        and args[:3] == [sys.executable, "-P", "-m"]
        and args[3].startswith(_PACKAGE)
        and _before(options.get("env") or dict(os.environ)) is not None
    )


def install() -> None:
    """Start workers as forks from now on."""
    global _read_digest
    subprocess.Popen = _Dispatch  # type: ignore[misc]
    fetch = importlib.import_module(_FETCH)
    _read_digest = fetch.tree_digest
    fetch.tree_digest = _digest


def uninstall() -> None:
    """Start workers as usual again, and end the server."""
    global _path, _server
    subprocess.Popen = _POPEN  # type: ignore[misc]
    importlib.import_module(_FETCH).tree_digest = _read_digest
    if _server is not None:
        assert _server.stdin is not None
        _server.stdin.close()
        _server.wait()
        _path = _server = None


def remember(folder: Path) -> None:
    """Let no process of this run read the sources of this release again, which were found as they should be."""
    if str(folder) not in _digests:
        _digests[str(folder)] = _digest(folder)


def _digest(folder: Path) -> str:
    assert _read_digest is not None
    return _digests.get(str(folder)) or _read_digest(folder)


def _listening() -> str:
    """Where the server listens; it is started if it is not there."""
    global _path, _server
    with _lock:
        if _path is None:
            folder = tempfile.mkdtemp()
            path = os.path.join(folder, "s")
            environment = os.environ | {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
            _server = _POPEN(
                [sys.executable, "-P", __file__, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
            )
            assert _server.stdout is not None
            assert _server.stdout.readline() == b"ready\n"
            _path = path
        return _path


# ---- the server ----


def serve(path: str) -> None:
    """Fork a process for each request, and say when it is over, until standard input is closed."""
    global _path
    for name in _PRELOADED:
        __import__(name)
    for name in _OF_RELEASES:
        with contextlib.suppress(ImportError):
            __import__(name)
    sys.modules["torch"].set_num_threads(1)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    _path = path
    install()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(wake)
    print("ready", flush=True)
    children: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([listener, woken, 0], [], [])
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 4096)
            _bury(children)
        if listener in ready:
            connection, _ = listener.accept()
            pid = _fork(connection, (listener, *children.values()), (woken, wake))
            children[pid] = connection
            connection.sendall(b"%d\n" % pid)
        if 0 in ready:
            Path(path).unlink()
            Path(path).parent.rmdir()
            return


def _bury(children: dict[int, socket.socket]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with children.pop(pid) as connection, contextlib.suppress(OSError):
            connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _fork(connection: socket.socket, others: Sequence[socket.socket], ends: Sequence[int]) -> int:
    head, fds, _, _ = socket.recv_fds(connection, 4, 3)
    text = b""
    while len(text) < int.from_bytes(head, "big"):
        text += connection.recv(1 << 16)
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else signal.default_int_handler)
        for it in (connection, *others):
            it.close()
        for end in ends:
            os.close(end)
        _become(json.loads(text), fds)
    for fd in fds:
        os.close(fd)
    return pid


def _become(request: dict[str, Any], fds: Sequence[int]) -> None:
    """Be the process that was asked for, and end."""
    code = 1
    try:
        for number, fd in enumerate(fds):
            os.dup2(fd, number)
            os.close(fd)
        if request["session"]:
            os.setsid()
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        _adopt(request["client"])
        _digests.update(request["digests"])
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - the streams of the whole process
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
        if request["without"] is not None:
            _hide(request["without"])
        _customize(request["before"] or [], request["words"])
        _main(request["words"])
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _customize(folders: list[str], words: list[str]) -> None:
    """Search these folders first, and run the code that an interpreter runs as it starts."""
    sys.orig_argv = [sys.executable, "-P", *words]
    sys.path[:0] = folders
    for folder in folders:
        file = Path(folder) / "sitecustomize.py"
        if file.exists():
            runpy.run_path(str(file), run_name="sitecustomize")


def _main(words: list[str]) -> None:
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path.insert(0, str(Path(words[0]).parent))
        runpy.run_path(words[0], run_name="__main__")


def _adopt(client: int) -> None:
    """Let this process, and none that it forks, take the client for its parent: a worker ends with its parent."""
    me, real = os.getpid(), os.getppid

    def getppid() -> int:
        if os.getpid() != me:
            return real()
        return client if _lives(client) else 1

    os.getppid = getppid


def _hide(package: str) -> None:
    for name in [it for it in sys.modules if it == package or it.startswith(f"{package}.")]:
        del sys.modules[name]
    sys.modules[package] = None  # type: ignore[assignment]


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    serve(sys.argv[1])
