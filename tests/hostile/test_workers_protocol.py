"""Answers that no worker gave: whatever comes through the pipe is an answer of the worker, or one line and its end.

The workers are fakes without torch. Most run in this process, on a pipe that the test fills.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import ended

from staleloc.sim.run import process
from staleloc.sim.run.process import ChildProcess, WorkerDied, WorkerHung, WorkerSilent
from staleloc.sim.targets.base import TargetError

JUNK = 160
"""Generated streams of bytes."""

Start = Callable[[str], ChildProcess]

HEAD = """
import itertools, json, os, signal, sys, time
request = json.loads(sys.stdin.readline())
nonce = request["nonce"]
def answer(values, number=0, nonce=nonce):
    sys.stdout.write(f"{nonce} {number} {json.dumps(values)}\\n")
    sys.stdout.flush()
"""


class Piped(ChildProcess):
    """A worker that is this process, whose answers the test writes."""

    def __init__(self) -> None:
        self._out, self.telling = os.pipe()
        self._pending = bytearray()
        self._nonce, self._number = "0123456789abcdef", 0
        self._mark = None
        self.closed = False

    def used(self) -> float | None:
        return None

    def close(self) -> None:
        self.closed = True
        with contextlib.suppress(OSError):
            os.close(self._out)
            os.close(self.telling)

    def _died(self) -> Exception:
        return WorkerDied(0, "")


def frame(values: object, nonce: str = "0123456789abcdef", number: int = 0) -> bytes:
    """An answer as a worker writes it."""
    return f"{nonce} {number} {json.dumps(values)}\n".encode()


def junk(seed: int) -> bytes:
    """Bytes of a target that meddles: wrong numbers, broken JSON, noise, values that are no answer."""
    draw = random.Random(seed)
    good = frame({"divergence": None, "events": 3})
    noise = draw.randbytes(draw.randrange(1, 300)).replace(b"\n", b" ")
    kinds = (
        noise + b"\n",
        noise + good,
        frame({"divergence": None}, nonce=f"{draw.getrandbits(64):016x}"),
        frame({"divergence": None}, number=draw.choice((-1, 1, 2, 10**9))),
        frame(draw.choice((None, 1, "x", [], [{}], True, 1e9))),
        good[: draw.randrange(1, len(good) - 2)] + b"\n",
        good.replace(b"{", b"{" * draw.randrange(2, 9), 1),
        b"0123456789abcdef 0 " + b"[" * draw.choice((10, 10**5)) + b"\n",
        b'0123456789abcdef 0 {"events": ' + b"9" * 10**5 + b"}\n",
        b"0123456789abcdef 0 " + noise + b"\n",
        b"0123456789abcdef  0 {}\n",
        b"\x00" * draw.randrange(1, 99) + b"\n",
        b"\n" * draw.randrange(1, 9),
        good.upper(),
        good.decode().encode("utf-16"),
        b'{"divergence": null, "events": 3, "error": "forged"}\n',
    )
    return kinds[seed % len(kinds)]


@pytest.mark.parametrize("first", range(0, JUNK, 16))
def test_what_is_no_answer_is_one_line_and_ends_the_worker(first: int) -> None:
    """It is never a verdict, and the line shows the first bytes of it, without control characters."""
    for seed in range(first, first + 16):
        worker = Piped()
        data = junk(seed)
        threading.Thread(target=lambda end=worker.telling, data=data: os.write(end, data), daemon=True).start()
        with pytest.raises(TargetError) as raised:
            worker.receive(20.0)
        assert str(raised.value).startswith("the target wrote to the pipe of its worker's answers (")
        assert str(raised.value).isprintable()
        assert len(str(raised.value)) < 250
        assert worker.closed


def test_an_answer_arrives_in_any_pieces() -> None:
    """Each is taken once, and those of one request are counted."""
    worker = Piped()
    answers = [{"tape": index, "text": "x" * index * 40} for index in range(20)]
    data = b"".join(frame(it, number=index) for index, it in enumerate(answers))
    draw = random.Random(0)

    def write() -> None:
        rest = data
        while rest:
            size = draw.randrange(1, 700)
            os.write(worker.telling, rest[:size])
            rest = rest[size:]

    threading.Thread(target=write, daemon=True).start()
    assert [worker.receive(20.0) for _ in answers] == answers


def test_an_endless_line_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent keeps no more of it than an answer may have."""
    monkeypatch.setattr(process, "MAX_ANSWER", 1 << 20)
    worker = Piped()

    def flood() -> None:
        with contextlib.suppress(OSError):
            while True:
                os.write(worker.telling, b"0123456789abcdef 0 " * 1000)

    threading.Thread(target=flood, daemon=True).start()
    with pytest.raises(TargetError, match="more than 1 MiB in one line"):
        worker.receive(60.0)
    assert len(worker._pending) < 3 << 20


def test_bytes_that_drip_do_not_extend_the_deadline() -> None:
    """What counts is a whole answer."""
    worker = Piped()
    over = threading.Event()

    def drip() -> None:
        with contextlib.suppress(OSError):
            while not over.wait(0.02):
                os.write(worker.telling, b".")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        with pytest.raises(WorkerSilent):
            worker.receive(0.3)
    finally:
        over.set()
        thread.join()


# Processes


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start a fake worker that does this after it has read its request."""
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    running: list[ChildProcess] = []

    def call(code: str) -> ChildProcess:
        (tmp_path / "fake_worker.py").write_text(HEAD + textwrap.dedent(code), encoding="utf-8")
        running.append(ChildProcess("fake_worker"))
        running[-1].send({"op": "run"})
        return running[-1]

    yield call
    for worker in running:
        if not worker._log.closed:
            worker.close()


def test_a_stopped_worker_is_silent_and_no_hang(start: Start) -> None:
    """SIGSTOP: it uses no processor, so nothing is said about the target."""
    worker = start("os.kill(os.getpid(), signal.SIGSTOP)")
    with pytest.raises(WorkerSilent, match="did not use the processor"):
        worker.receive(0.5, 30.0)


def test_a_worker_that_was_stopped_for_a_while_answers(start: Start) -> None:
    """Time that passes is no processor time: the answer counts, however late it is."""
    worker = start("os.kill(os.getpid(), signal.SIGSTOP); answer({'divergence': None})")
    threading.Timer(0.5, os.kill, (worker._process.pid, signal.SIGCONT)).start()
    assert worker.receive(60.0, 0.2) == {"divergence": None}


def test_a_worker_that_waits_is_silent(start: Start) -> None:
    """Whether it would wait for ever, nobody knows."""
    with pytest.raises(WorkerSilent):
        start("time.sleep(600)").receive(0.3, 30.0)


@pytest.mark.skipif(sys.platform != "linux", reason="the processor time of another process is read from /proc")
def test_a_worker_that_uses_the_processor_hangs(start: Start) -> None:
    """In C code, where no signal of Python's gets through."""
    with pytest.raises(WorkerHung, match="uses the processor all the time"):
        start("sum(itertools.count())").receive(60.0, 0.2)


@pytest.mark.parametrize("seed", range(6))
def test_a_worker_that_is_killed_at_any_point_is_lost_and_no_more(start: Start, seed: int) -> None:
    """What it has answered counts; the answer that was cut does not."""
    worker = start("for number in range(10**6): answer({'tape': number, 'text': 'x' * 1000}, number)")
    threading.Timer(random.Random(seed).random() / 5, worker.kill).start()
    taken: list[int] = []

    def take() -> None:
        while True:
            taken.append(worker.receive(60.0)["tape"])

    with pytest.raises(WorkerDied, match="SIGKILL"):
        take()
    assert taken == list(range(len(taken)))


@pytest.mark.parametrize("code", [0, 1, 77])
def test_a_worker_that_ends_is_lost(start: Start, code: int) -> None:
    """With any exit code, also with that of success, and with an answer that is cut."""
    with pytest.raises(WorkerDied, match=f"exited with code {code}"):
        start(f"os.write(1, nonce.encode() + b' 0 {{'); os._exit({code})").receive(60.0)


def test_a_worker_that_closes_its_pipe_is_ended(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on without an answer; that is no end of the process."""
    monkeypatch.setattr(process, "END_SECONDS", 0.2)
    worker = start("os.close(1); time.sleep(600)")
    with pytest.raises(TargetError, match="closed the pipe"):
        worker.receive(60.0)
    assert ended(worker._process.pid)


def test_a_log_without_end_is_not_read_into_memory(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last line is told if the worker ends, and between two requests it is emptied."""
    monkeypatch.setattr(process, "LOG_BYTES", 1 << 16)
    worker = start(
        """
        for line in range(3000): os.write(2, b"x" * 99 + b"\\n")
        answer({})
        nonce = json.loads(sys.stdin.readline())["nonce"]
        os.write(2, b"the last words\\n")
        os._exit(5)
        """
    )
    assert worker.receive(60.0) == {}
    worker.send({})
    with pytest.raises(WorkerDied, match="exited with code 5: the last words") as raised:
        worker.receive(60.0)
    assert raised.value.log == "the last words"


def test_answers_that_were_not_asked_for_end_the_worker(start: Start) -> None:
    """A target that answers ahead of the next request does not know its number."""
    worker = start("answer({}); answer({'divergence': None}, 0); answer({}, 1); time.sleep(600)")
    assert worker.receive(60.0) == {}
    worker.send({"op": "run"})
    with pytest.raises(TargetError, match="nothing of it counts"):
        worker.receive(60.0)


def test_a_worker_does_not_end_with_the_thread_that_asked_for_it(start: Start) -> None:
    """It ends with the process only: campaigns hand workers from thread to thread."""
    started: list[ChildProcess] = []
    thread = threading.Thread(
        target=lambda: started.append(start("from staleloc.sim.core.lifetime import end_with_parent\n" + WAIT))
    )
    thread.start()
    thread.join()
    assert started[0].receive(60.0) == {"ready": True}
    started[0].send({})
    assert started[0].receive(60.0) == {"again": True}


WAIT = """
end_with_parent(int(sys.argv[1]))
answer({"ready": True})
nonce = json.loads(sys.stdin.readline())["nonce"]
time.sleep(0.3)
answer({"again": True}, nonce=nonce)
"""
