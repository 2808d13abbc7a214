"""Files for ``--events`` that sleep, loop, exit, fork or raise strangely: one line, which names file and function, and
exit code 2. They are never a finding, and never a success."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import warm
from plain_run import LONG

from staleloc.models.config import SWA, Config
from staleloc.sim.cli.text import events_file
from staleloc.sim.core.mark import Mark
from staleloc.sim.declared import Model
from staleloc.sim.parts import hooks
from staleloc.sim.parts.allocator.ledger import Ledger
from staleloc.sim.parts.events_file import load
from staleloc.sim.parts.hooks import DeclaredError

CONFIG = Config(policy="memo", full_size=4, swa_size=4, layers=(SWA, SWA), window=2)

HEAD = """
import atexit, ctypes, itertools, os, signal, subprocess, sys, threading, time
from staleloc.sim.declared import Declared

class Rude(BaseException):
    def __str__(self):
        raise SystemExit(0)

class Liar(Exception):
    def __str__(self):
        return 7

def outside():
    ctypes.CDLL(None)._exit(0)
"""

FILE = """
{at_import}

class Compact(Declared):
    '''packs the pool'''

    kind = "compact"

    @classmethod
    def draw(cls, choices, books):
        {draw}
        return cls()

    def legal(self, books):
        {legal}
        return True

    def call(self, cache):
        {call}
        pass

    def apply(self, model):
        {apply}
        model.repack()
"""

PARTS = ("at_import", "draw", "legal", "call", "apply")


def text_of(part: str, code: str) -> str:
    """A file that does this in one of its parts."""
    depth = "" if part == "at_import" else " " * 8
    lines = textwrap.indent(textwrap.dedent(code).strip(), depth).lstrip()
    return HEAD + FILE.format(**{**dict.fromkeys(PARTS, ""), part: lines})


RAISING = {
    "raise KeyboardInterrupt": "KeyboardInterrupt",
    "raise SystemExit(0)": "SystemExit: 0",
    "raise SystemExit(1)": "SystemExit: 1",
    "sys.exit()": "SystemExit",
    "raise GeneratorExit": "GeneratorExit",
    "raise BaseException('x')": "BaseException: x",
    "raise Rude": "Rude: its message cannot be had, that raises SystemExit",
    "raise Liar": "Liar: its message cannot be had, that raises TypeError",
    "raise ValueError('a\\n\\n b')": "ValueError: a b",
    "raise ValueError('x' * 10**6)": "ValueError: x",
    "raise ExceptionGroup('g', [ValueError()])": "ExceptionGroup: g (1 sub-exception)",
    "1 / 0": "ZeroDivisionError: division by zero",
    "def again(): again()\nagain()": "RecursionError: ",
    "raise StopIteration": "StopIteration",
    "raise MemoryError": "MemoryError",
    "os._exit(0)": "it calls os._exit()",
    "os.abort()": "it calls os.abort()",
    "os.fork()": "it calls os.fork()",
    "os.kill(os.getpid(), 9)": "it calls os.kill()",
    "os.execv('/bin/true', ['true'])": "it calls os.execv()",
    "os.closerange(3, 99)": "it calls os.closerange()",
    "atexit.register(os._exit, 0)": "it calls atexit.register()",
    "atexit.register(print)": "it calls atexit.register()",
    "signal.signal(signal.SIGPROF, signal.SIG_IGN)": "it calls signal.signal()",
    "signal.setitimer(signal.ITIMER_PROF, 0)": "it calls signal.setitimer()",
    "signal.raise_signal(signal.SIGKILL)": "it calls signal.raise_signal()",
    "try: os.fork()\nexcept BaseException: pass": "it calls os.fork()",
    "from os import _exit\n_exit(0)": "it calls os._exit()",
}
"""Code -> what is told of it, wherever it stands."""


@pytest.fixture
def declare(tmp_path: Path) -> Iterator[Callable[[str, str], None]]:
    """Load a file that does this in one of its parts."""

    def write(part: str, code: str) -> None:
        path = tmp_path / "mine.py"
        path.write_text(text_of(part, code), encoding="utf-8")
        load(str(path), "mine.py")

    yield write
    load(None)


def ask(part: str) -> None:
    """Call a function of the one event that is loaded."""
    (event,) = hooks.declared().values()
    nothing: Any = None
    calls: dict[str, Callable[[], object]] = {
        "draw": lambda: event.drawn(nothing, nothing),
        "legal": lambda: event().violation(Ledger(CONFIG)),
        "call": lambda: event().act(nothing),
        "apply": lambda: event().told(Model(nothing)),
    }
    calls[part]()


@pytest.mark.parametrize("code", RAISING, ids=lambda code: code[:30])
def test_what_a_file_raises_or_calls_is_told_in_one_line(declare: Callable[[str, str], None], code: str) -> None:
    """At import and in each function, with the name of the function. The process goes on."""
    with pytest.raises(DeclaredError) as raised:
        declare("at_import", code)
    told = [str(raised.value)]
    for part in PARTS[1:]:
        declare(part, code)
        with pytest.raises(DeclaredError) as raised:
            ask(part)
        told.append(str(raised.value))
        assert f"Compact.{part}()" in told[-1]
    for line in told:
        assert line.startswith("mine.py")
        assert RAISING[code] in line
        assert line.isprintable()
        assert len(line) < 320


def test_a_copy_of_the_process_ends_with_the_function_that_made_it(declare: Callable[[str, str], None]) -> None:
    """However it was made: it would play on, and answer beside its original."""
    declare("legal", "ctypes.CDLL(None).fork()")
    ask("legal")
    for _ in range(200):
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            pytest.fail("there was no copy")
        if pid:
            break
        time.sleep(0.02)
    assert os.waitstatus_to_exitcode(status) == 2


def test_what_the_file_calls_may_do_as_before(declare: Callable[[str, str], None]) -> None:
    """Processes of the library, and a signal handler that it sets."""
    declare("legal", "assert subprocess.run(['true']).returncode == 0")
    ask("legal")


def test_a_mark_shows_what_runs(tmp_path: Path) -> None:
    """To a process that has opened the same file; nothing once it is over, and a name of any length."""
    mine, theirs = (Mark.in_file(str(tmp_path / "mark")) for _ in range(2))
    assert theirs.read() == (0, "")
    assert mine.put("events.py, Compact.draw()") == ""
    assert theirs.read() == (1, "events.py, Compact.draw()")
    assert mine.put("é" * 4000) == "events.py, Compact.draw()"
    assert theirs.read()[1].startswith("é" * 200)
    mine.put("")
    assert theirs.read() == (3, "")


def test_the_file_is_known_before_the_command_line_is_read() -> None:
    """The command runs in a process that is watched from the start."""
    assert events_file(["fuzz", "--events", "a.py"]) == "a.py"
    assert events_file(["fuzz", "--events=a.py", "--tapes", "1"]) == "a.py"
    assert events_file(["fuzz", "--tapes", "1"]) is None
    assert events_file(["fuzz", "--events"]) is None
    assert events_file([]) is None


# Commands

SLEEP, LOOP, C_LOOP, OUTSIDE = (
    "time.sleep(600)",
    "while True:\n    try: pass\n    except BaseException: pass",
    "sum(itertools.count())",
    "outside()",
)

FAULTS = [
    ("at_import", SLEEP, "mine.py, as it is imported: it does not return"),
    ("at_import", OUTSIDE, "mine.py, as it is imported: it ended the process with exit code 0"),
    ("legal", OUTSIDE, "mine.py, Compact.legal(): it ended the process: exited with code 0"),
    ("call", OUTSIDE, "mine.py, Compact.call(): it ended the process: exited with code 0"),
    ("call", LOOP, "Compact.call(): it does not return"),
]
MORE = [
    ("draw", SLEEP, "mine.py, Compact.draw(): it does not return"),
    ("at_import", C_LOOP, "mine.py, as it is imported: it does not return"),
    ("at_import", "os.system('kill -9 $PPID')", "mine.py, as it is imported: it ended the process by signal SIGKILL"),
    ("at_import", "ctypes.CDLL(None).abort()", "mine.py, as it is imported: it ended the process by signal SIGABRT"),
    ("draw", LOOP, "Compact.draw(): it does not return"),
    ("draw", OUTSIDE, "mine.py, Compact.draw(): it ended the process"),
    ("legal", C_LOOP, "mine.py, Compact.legal(): it does not return"),
    ("legal", SLEEP, "mine.py, Compact.legal(): it does not return"),
    ("call", SLEEP, "mine.py, Compact.call(): it, or what it calls, does not return"),
    ("call", C_LOOP, "mine.py, Compact.call(): it, or what it calls, does not return"),
    ("apply", OUTSIDE, "mine.py, Compact.apply(): it ended the process"),
    ("apply", LOOP, "Compact.apply(): it does not return"),
]

HASTE = """
from staleloc.sim.core import timeouts
from staleloc.sim.parts import hooks
hooks.PATIENCE, hooks.WAITING_SECONDS, timeouts._patience = 0.3, 3.0, 0.3
"""


def command(folder: Path, part: str, code: str) -> tuple[int, str, str]:
    """A short campaign with such a file, by processes with less patience."""
    (folder / "mine.py").write_text(text_of(part, code), encoding="utf-8")
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(HASTE, encoding="utf-8")
    paths = [str(folder / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    words = ["-m", "staleloc.sim", "fuzz", "--tapes", "8", "--workers", "1", "--events", "mine.py"]
    done = warm.run(words, folder, PYTHONPATH=os.pathsep.join(paths))
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(("part", "code", "told"), [*FAULTS, *(MORE if LONG else [])])
def test_a_file_that_takes_the_process_or_the_time_is_told_in_one_line(
    tmp_path: Path, part: str, code: str, told: str
) -> None:
    """By a process that watches: what the file does to its own process is no matter."""
    status, out, err = command(tmp_path, part, code)
    lines = [line for line in err.splitlines() if "these are the results so far" not in line]
    assert (status, len(lines), out) == (2, 1, ""), err
    assert lines[0].startswith("staleloc: mine.py")
    assert told in lines[0]


def test_a_file_without_fault_is_played_as_before(tmp_path: Path) -> None:
    """The watched command has the exit code and the output of the command."""
    status, out, err = command(tmp_path, "legal", "")
    assert (status, err) == (0, "")
    assert "declared event compact: played" in out


def test_a_file_that_changes_the_end_of_the_process_is_told(tmp_path: Path) -> None:
    """After the last line: the exit code would be another than that of the result."""
    code = "exec('import atexit, os; atexit.register(os._exit, 0)', {})\nraise SystemExit('no')"
    status, _, err = command(tmp_path, "at_import", code)
    assert status == 2
    assert "mine.py: it keeps the process from its end, or changes its exit code" in err
