"""A finding that was seen is on disk, however the run ends."""

from __future__ import annotations

import os
import random
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import warm
from in_process import call
from plain_run import LONG

from staleloc.models.config import Config
from staleloc.sim.audit.play.coverage import FailingTape, FailureGroup
from staleloc.sim.audit.report.command import see
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.core.tape import Tape
from staleloc.sim.findings.files import remove_leftovers
from staleloc.sim.findings.finding import Finding, Origin
from staleloc.sim.findings.saves import Saves
from staleloc.sim.parts.allocator.events import Alloc, Clear
from staleloc.sim.run.player import Player
from staleloc.sim.tapes.codec import load
from staleloc.sim.targets.base import Scope

UNSHRUNK = Tape(Config(), (Alloc(0, 4), Clear(), Clear(), Clear()))

MINIMAL = replace(UNSHRUNK, events=UNSHRUNK.events[:2])

LEAK = Divergence("leak", "conservation", 1, "a slot is gone")

MUTANT = "free-repeats-page"

CALLS = ("open", "close", "fsync", "replace", "unlink", "mkdir", "rmdir", "fchmod")
"""Calls of the system at which a run dies."""

DEAD = 9


def finding(index: int, tape: Tape) -> Finding:
    return Finding(Origin("builtin", seed=0, index=index), tape, LEAK)


STEPS: list[tuple[str, int]] = [
    *(("see", index) for index in (3, 1, 2)),
    *(("keep", 3), ("drop", 1), ("keep", 2)),
]
"""Three tapes are seen. The last ones are two bugs, the other one is a bug again."""


def save(saves: Saves, step: str, index: int) -> None:
    getattr(saves, step)(finding(index, MINIMAL if step == "keep" else UNSHRUNK))


def run_until(number: int, folder: Path) -> tuple[bool, list[tuple[str, int]]]:
    """Go the steps in a process that dies before a call of the system; whether it died, and the steps that it went."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        count = 0

        def counted(work: Callable[..., object]) -> Callable[..., object]:
            def call(*arguments: object, **options: object) -> object:
                nonlocal count
                count += 1
                if count > number:
                    os._exit(DEAD)
                return work(*arguments, **options)

            return call

        for name in CALLS:
            setattr(os, name, counted(getattr(os, name)))
        saves = Saves(folder)
        for step, index in STEPS:
            save(saves, step, index)
            os.write(tell, b".")
        os._exit(0)
    os.close(tell)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    went = len(os.read(told, 100))
    os.close(told)
    return code == DEAD, STEPS[:went]


def saved(folder: Path) -> dict[int, set[int]]:
    """Number of each tape in the folder -> lengths of the tapes that are saved of it. All files are whole."""
    found: dict[int, set[int]] = {}
    for path in folder.glob("*.json"):
        tape = load(path)
        index = (tape.provenance or {})["tape"]
        assert isinstance(index, int)
        assert path.name in (f"builtin-seed0-tape{index}-leak{mark}.json" for mark in ("", "-unshrunk"))
        found.setdefault(index, set()).add(len(tape.events))
    return found


def test_death_at_any_call_of_the_system_loses_no_finding(tmp_path: Path) -> None:
    """Before each one in turn: what was seen is there, and every file is whole. The rest is removed by the next run."""
    for number in range(1000):
        folder = tmp_path / str(number)
        died, went = run_until(number, folder)
        there = saved(folder) if folder.exists() else {}
        seen = {index for step, index in went if step == "see"}
        gone = {1} if ("keep", 3) in went else set()
        assert seen - gone <= set(there) <= {1, 2, 3}
        for step, index in went:
            if step == "keep":
                assert len(MINIMAL.events) in there[index]
        remove_leftovers(folder)
        assert not folder.exists() or all(it.suffix == ".json" for it in folder.iterdir())
        if not died:
            assert there == {2: {2}, 3: {2}}
            break
    assert number > 30


def test_an_older_finding_of_that_name_stays_until_the_new_one_is_shrunk(tmp_path: Path) -> None:
    """What is seen has a name of its own, and a link of that name leads to nothing that is overwritten."""
    old = Saves(tmp_path).keep(finding(3, MINIMAL))
    assert old is not None
    (tmp_path / "elsewhere.json").write_text("precious")
    (tmp_path / "builtin-seed0-tape2-leak.json").symlink_to("elsewhere.json")
    text = old.read_text()
    saves = Saves(tmp_path)
    saves.see(finding(3, UNSHRUNK))
    assert old.read_text() == text
    saves.drop(finding(3, UNSHRUNK))
    assert old.read_text() == text
    assert saves.keep(finding(2, MINIMAL)) is not None
    assert (tmp_path / "elsewhere.json").read_text() == "precious"
    (tmp_path / "elsewhere.json").unlink()
    assert sorted(saved(tmp_path)) == [2, 3]


def campaign(folder: Path, *words: str) -> warm.Process:
    command = ["-m", "staleloc.sim", "fuzz", "--mutant", MUTANT, "--seconds", "600", "--workers", "1", *words]
    with open(os.devnull) as nothing:
        return warm.Process(command, nothing, subprocess.PIPE, subprocess.PIPE, cwd=folder)


def until_seen(process: warm.Process, folder: Path, number: int) -> set[str]:
    """The names of the tapes in the folder, once there are so many."""
    while process.poll() is None:
        names = {path.name for path in (folder / "staleloc-tapes").glob("*.json")}
        if len(names) >= number:
            return names
        time.sleep(0.002)
    raise AssertionError(f"the campaign ended with {process.returncode}")


@pytest.fixture(scope="module")
def player() -> Iterator[Player]:
    """Plays tapes on the mutant."""
    with Player("builtin", MUTANT) as it:
        yield it


KILLS = [(number, delay) for number in (1, 2, 3, 4) for delay in range(5)] if LONG else [(2, 1)]


@pytest.mark.parametrize(("number", "delay"), KILLS)
def test_a_killed_campaign_leaves_what_it_had_seen(number: int, delay: int, player: Player, tmp_path: Path) -> None:
    """Killed as soon as so many are there, or a while later. Each is a tape that diverges."""
    process = campaign(tmp_path)
    try:
        seen = until_seen(process, tmp_path, number)
        time.sleep(delay * random.Random(number).random() / 10)
        seen |= {path.name for path in (tmp_path / "staleloc-tapes").glob("*.json")}
    finally:
        process.kill()
    process.wait(60)
    left = {path.name: path for path in (tmp_path / "staleloc-tapes").glob("*.json")}
    assert seen <= set(left)
    for path in left.values():
        assert player.play(load(path)) is not None


def test_a_campaign_whose_terminal_is_gone_reports(tmp_path: Path) -> None:
    """SIGHUP ends it like SIGTERM: minimal tapes, a summary and a report, although nobody reads it."""
    process = campaign(tmp_path, "--json", "a.json")
    try:
        until_seen(process, tmp_path, 1)
        assert process.stdout is not None
        process.stdout.close()
        process.send_signal(signal.SIGHUP)
        assert process.wait(60) == 1
    finally:
        process.kill()
    assert process.stderr is not None
    with process.stderr as err:
        assert select.select([err], [], [], 0)[0]
        assert err.read().decode().splitlines()[-1] == "staleloc: interrupted; these are the results so far"
    assert re.search(r'"verdict": "divergence"', (tmp_path / "a.json").read_text())
    assert not [path for path in (tmp_path / "staleloc-tapes").iterdir() if "unshrunk" in path.name]


def test_a_run_under_nohup_goes_on() -> None:
    """A signal that is ignored stays ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert call("--version").code == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_audit_saves_what_failed_before_it_removes_guards(tmp_path: Path) -> None:
    """To remove them takes most of the time: a random tape and a known one."""
    group = FailureGroup("leak", "", "", ())
    failing = [FailingTape(Scope(), index, LEAK, group) for index in (3, -1)]
    saves = Saves(tmp_path)
    origin = Origin("builtin", seed=0)
    seen = see(failing, "builtin", origin, saves)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 2
    assert names[-1] == "builtin-seed0-tape3-leak-unshrunk.json"
    assert [load(path) for path in sorted(tmp_path.iterdir())] == [it.documented() for it in reversed(seen)]
