"""Workers: one process, one target, and nothing that the target does to its process reaches us."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from staleloc.models.config import Config
from staleloc.sim.core.choices import seeded
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.allocator.events import Alloc, Clear, CpuCopy, Free
from staleloc.sim.parts.allocator.generate import generate
from staleloc.sim.parts.drive import drive
from staleloc.sim.run.messages import (
    divergence_from_json,
    divergence_to_json,
    profile_from_json,
    profile_to_json,
)
from staleloc.sim.run.player import Player, Unplayable
from staleloc.sim.run.process import WorkerDied, WorkerProcess
from staleloc.sim.tapes.codec import dumps
from staleloc.sim.targets.base import Scope, TargetError
from staleloc.sim.targets.builtin import BuiltinEngine, BuiltinTarget

Spoil = Callable[[str], Path]

TAPE = Tape(Config(policy="memo"), (Alloc(0, 1), Clear()))


def answers(tapes: range = range(6), mutant: str | None = None) -> list[dict[str, object]]:
    """What a worker says about some tapes of seed 0."""
    with WorkerProcess("builtin", mutant) as worker:
        return list(worker.run(Scope(), 0, list(tapes)))


def gone(pid: int) -> bool:
    """Whether a process ends within some seconds; a zombie that nobody reaps has ended."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_a_worker_says_what_its_target_can_do() -> None:
    """Profiles arrive as they are, and a mutant's are cut down to what shows it."""
    with WorkerProcess("builtin") as worker:
        assert tuple(worker.profiles) == BuiltinEngine.profiles
        assert worker.stand_ins == {"replaced": [], "given": []}
    with WorkerProcess("builtin", "memo-key-length-only") as worker:
        assert [profile.policies for profile in worker.profiles] == [("memo",)]


def test_a_worker_plays_what_this_process_would_play() -> None:
    """Tapes by number, one answer each, with the verdict of the same tape played here."""
    for index, answer in enumerate(answers()):
        tape = generate(seeded(0, index), BuiltinTarget.profiles)
        profile = next(profile for profile in BuiltinTarget.profiles if profile.pool == tape.config.pool)
        verdict = drive(tape, BuiltinTarget(), profile)
        assert answer == {
            "tape": index,
            "place": [],
            "divergence": None,
            "events": verdict.events,
            "skipped": 0,
            "seen": verdict.seen,
        }


def test_what_crosses_the_line_comes_back_as_it_was() -> None:
    """Divergences and profiles are the same after a round trip."""
    tape = Tape(Config(policy="memo", page_size=1, full_size=4, swa_size=4), (Alloc(0, 2), Clear()))
    with Player("builtin", "clear-keeps-mapping") as player:
        divergence = player.play(tape)
    assert divergence is not None
    assert divergence.rows
    assert divergence_from_json(divergence_to_json(divergence)) == divergence
    for profile in BuiltinEngine.profiles:
        assert profile_from_json(profile_to_json(profile)) == profile


def test_a_tape_is_played_as_often_as_asked() -> None:
    """Each time on a new cache, with the same answer; events and situations are those of the last tape."""
    with Player("builtin", "free-leaves-entries") as player:
        diverging = Tape(TAPE.config, (Alloc(0, 1), Free(0, 0)))
        first = player.play(diverging)
        assert first is not None
        assert player.play(diverging) == first
        assert player.play(Tape(TAPE.config, (Alloc(0, 1),))) is None
        assert player.events == 1
        assert player.seen == {}


def test_a_tape_outside_the_contract_is_not_played() -> None:
    """The reason names the event."""
    with Player("builtin") as player:
        with pytest.raises(Unplayable, match=r"event 2 \(free\) cannot be played: no live loc is freed twice"):
            player.play(Tape(TAPE.config, (Alloc(0, 1), Free(1, 0))))
        with pytest.raises(Unplayable, match="DeepSeek-V4-like pool is not retracted"):
            player.play(Tape(Config(pool="dsv4", policy="uncached"), (Alloc(0, 1), CpuCopy(0, 0, 0, 1))))
        assert player.play(TAPE) is None


@pytest.mark.parametrize(
    ("target", "mutant", "message"),
    [
        ("builtin:nothing", None, "builtin has no policy 'nothing'"),
        ("builtin", "free-leaves-entrees", "did you mean free-leaves-entries?"),
    ],
)
def test_a_target_that_cannot_be_had_is_a_clear_message(target: str, mutant: str | None, message: str) -> None:
    """From the worker, where it is looked up, to the caller."""
    with pytest.raises(TargetError) as raised:
        WorkerProcess(target, mutant)
    assert message in str(raised.value)


# Targets that spoil their process


def test_nothing_of_the_folder_that_the_user_is_in_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a checkout of torch, or hold a random.py."""
    (tmp_path / "random.py").write_text("raise SystemExit('mine')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with Player("builtin") as player:
        assert player.play(TAPE) is None


def test_a_target_that_prints_cannot_corrupt_the_protocol(hostile: Spoil) -> None:
    """Python's output, the file descriptor's and a child's all go to standard error."""
    hostile(
        """
        def loud(self, config):
            print('{"error": "I am the protocol"}', flush=True)
            sys.__stdout__.write("not json\\n")
            os.write(1, b'{"tape": 99}\\n')
            subprocess.run(["echo", "hello"], check=True)
            build(self, config)
        BuiltinTarget.build = loud
        """
    )
    assert [(answer["tape"], answer["divergence"]) for answer in answers()] == [(index, None) for index in range(6)]


def test_a_process_that_aborts_is_a_crash_of_its_tape(hostile: Spoil) -> None:
    """How it ended is said, and the next tape is played by a new process."""
    hostile(
        """
        def abort(self):
            print("about to abort", file=sys.stderr, flush=True)
            os.abort()
        BuiltinTarget.clear = abort
        """
    )
    with Player("builtin") as player:
        divergence = player.play(TAPE)
        assert divergence == Divergence("crash", "crash", -1, "the worker was killed by SIGABRT: about to abort")
        assert player.play(Tape(TAPE.config, TAPE.events[:1])) is None


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import ctypes; ctypes.string_at(0)", "the worker was killed by SIGSEGV"),
        ("os._exit(3)", "the worker exited with code 3"),
        ("sys.exit(4)", "the worker exited with code 4"),
    ],
)
def test_every_way_to_lose_a_process_is_noticed(hostile: Spoil, code: str, what: str) -> None:
    """A segmentation fault, an exit behind Python's back, an exit."""
    hostile(f"BuiltinTarget.clear = lambda self: exec({code!r})")
    with WorkerProcess("builtin") as worker, pytest.raises(WorkerDied, match=f"^{what}"):
        worker.play(dumps(TAPE))


def test_a_killed_process_is_no_verdict_on_the_target(hostile: Spoil) -> None:
    """SIGKILL comes from outside: the kernel short of memory, or a user."""
    hostile("BuiltinTarget.clear = lambda self: os.kill(os.getpid(), signal.SIGKILL)")
    with Player("builtin") as player, pytest.raises(TargetError, match=r"killed by SIGKILL: out of memory\?"):
        player.play(TAPE)


def test_a_target_that_does_not_come_back_is_a_hang(hostile: Spoil) -> None:
    """It hangs again in a fresh process, both are ended, and the next tape is played by a new one."""
    here = hostile(
        """
        def hang(self):
            (HERE / "pid").write_text(str(os.getpid()))
            with (HERE / "pids").open("a") as file:
                file.write("x")
            sum(itertools.count())
        BuiltinTarget.clear = hang
        """
    )
    said = "the target gives no answer, and uses the processor all the time"
    with Player("builtin", answer_seconds=1.0) as player:
        assert player.play(TAPE) == Divergence("hang", "hang", -1, said)
        assert (here / "pids").read_text(encoding="utf-8") == "xx"
        assert gone(int((here / "pid").read_text(encoding="utf-8")))
        assert player.play(Tape(TAPE.config, TAPE.events[:1])) is None


def test_a_harness_that_cannot_drive_the_target_says_so(hostile: Spoil) -> None:
    """A TargetError of the adapter reaches the caller as one."""
    hostile(
        """
        def refuse(self):
            raise TargetError("this build has no clear")
        BuiltinTarget.clear = refuse
        """
    )
    with Player("builtin") as player, pytest.raises(TargetError, match=r"^this build has no clear$"):
        player.play(TAPE)


def test_a_target_that_ends_the_process_while_it_loads_is_a_clear_message(hostile: Spoil) -> None:
    """With the last thing the process said."""
    hostile(
        """
        def init(self):
            print("no such device", file=sys.stderr)
            os._exit(7)
        BuiltinTarget.__init__ = init
        """
    )
    with pytest.raises(TargetError) as raised:
        WorkerProcess("builtin")
    assert str(raised.value) == "builtin could not be loaded: the worker exited with code 7: no such device"


@pytest.mark.parametrize("ending", ["", "os.abort()"])
def test_what_a_target_started_ends_with_its_worker(hostile: Spoil, ending: str) -> None:
    """Whether the worker is closed or takes itself down."""
    here = hostile(
        f"""
        def start(self):
            child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            (HERE / "pid").write_text(str(child.pid))
            {ending}
        BuiltinTarget.clear = start
        """
    )
    with WorkerProcess("builtin") as worker:
        try:
            worker.play(dumps(TAPE))
        except WorkerDied:
            assert ending
    assert gone(int((here / "pid").read_text(encoding="utf-8")))


def test_a_target_that_reads_standard_input_finds_it_empty(hostile: Spoil) -> None:
    """The line of requests is not there, by name or by number, so that none can be lost."""
    hostile(
        """
        def nosy(self, config):
            assert sys.stdin.read() == "" and os.read(0, 1) == b""
            build(self, config)
        BuiltinTarget.build = nosy
        """
    )
    assert [(answer["tape"], answer["divergence"]) for answer in answers()] == [(index, None) for index in range(6)]


def test_an_exception_of_our_own_is_no_divergence(hostile: Spoil) -> None:
    """An answer that the harness cannot read says nothing of the engine; the message names the place."""
    hostile("BuiltinTarget.alloc = lambda self, count: 5")
    with Player("builtin") as player, pytest.raises(TargetError) as raised:
        player.play(TAPE)
    message = str(raised.value)
    assert message.startswith("internal error of staleloc: TypeError: ")
    assert "(allocation.py, line " in message
    assert "the target was not tested" in message


def test_a_large_tape_may_take_longer(hostile: Spoil) -> None:
    """A pool of real size is slow to check, which is no hang of the target."""
    hostile(
        """
        def slow(self, config):
            end = time.process_time() + 0.8
            while time.process_time() < end:
                pass
            build(self, config)
        BuiltinTarget.build = slow
        """
    )
    with Player("builtin", answer_seconds=0.3) as player:
        hang = player.play(TAPE)
    assert hang is not None
    assert hang.kind == "hang"
    with Player("builtin", answer_seconds=0.3) as player:
        assert player.play(Tape(replace(TAPE.config, full_size=1 << 16), (Alloc(0, 1),))) is None


def test_a_worker_ends_with_its_parent(hostile: Spoil) -> None:
    """Even one whose target does not come back, when whoever asked was killed."""
    here = hostile(
        """
        def stuck(self, config):
            (HERE / "pid").write_text(str(os.getpid()))
            while True:
                pass
        BuiltinTarget.build = stuck
        """
    )
    parent = subprocess.Popen([sys.executable, "-m", "staleloc.sim", "fuzz", "--tapes", "1"], stderr=subprocess.DEVNULL)
    while not (here / "pid").exists() or not (here / "pid").read_text(encoding="utf-8"):
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    assert gone(int((here / "pid").read_text(encoding="utf-8")))


def test_a_worker_that_loads_ends_with_its_parent(hostile: Spoil) -> None:
    """A killed run leaves nobody behind, whatever its workers were at: here torch takes for ever to load."""
    here = hostile(
        """
        class Slow:
            def find_spec(self, name, path=None, target=None):
                if name == "torch":
                    (HERE / "pid").write_text(str(os.getpid()))
                    time.sleep(600)
        for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
            del sys.modules[name]
        sys.meta_path.insert(0, Slow())
        """
    )
    parent = subprocess.Popen([sys.executable, "-m", "staleloc.sim", "fuzz", "--tapes", "1"], stderr=subprocess.DEVNULL)
    while not (here / "pid").exists() or not (here / "pid").read_text(encoding="utf-8"):
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    assert gone(int((here / "pid").read_text(encoding="utf-8")))
