"""An event that does not come back is a hang, and costs no process."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass

import pytest

from staleloc.models.config import LEVELS, Config
from staleloc.sim.core import timeouts as watch
from staleloc.sim.core.tape import Tape
from staleloc.sim.core.timeouts import Stuck, patience
from staleloc.sim.parts.allocator.events import Alloc
from staleloc.sim.parts.drive import drive, drive_engine
from staleloc.sim.parts.engine.events import Arrive, Evict
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.builtin import BuiltinEngine

SMALL = Config(full_size=1, swa_size=1)
LARGE = Config(full_size=10_000, swa_size=1)


@dataclass
class Clock:
    now: int = 0


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests do not wait as long as campaigns do."""
    monkeypatch.setattr(watch, "_patience", 0.2)
    monkeypatch.setattr(watch, "AGAIN", 0.2)


def spin(*_arguments: object) -> None:
    while True:
        pass


def test_a_loop_is_ended_even_where_exceptions_are_caught() -> None:
    """An engine that catches every Exception does not catch this."""

    def stubborn() -> None:
        while True:
            with suppress(Exception):
                spin()

    with patience(Clock(), SMALL), pytest.raises(Stuck):
        stubborn()


def test_events_that_come_back_are_not_stuck() -> None:
    """What counts is one event, not the tape: many short ones may take longer than the patience."""
    clock = Clock()
    with patience(clock, SMALL):
        stop = time.process_time() + 0.6
        while time.process_time() < stop:
            clock.now += 1


def test_waiting_is_no_hang() -> None:
    """Processor time counts: a machine that is busy with other things makes nothing a hang."""
    with patience(Clock(), SMALL):
        time.sleep(0.6)


def test_large_pools_have_more_time() -> None:
    """A check may look at every slot."""
    with patience(Clock(), LARGE):
        stop = time.process_time() + 0.6
        while time.process_time() < stop:
            pass


def test_another_thread_is_left_alone() -> None:
    """Signals come to the main thread only; elsewhere nothing is watched, and nothing fails."""
    done: list[bool] = []

    def play() -> None:
        with patience(Clock(), SMALL):
            done.append(True)

    thread = threading.Thread(target=play)
    thread.start()
    thread.join()
    assert done == [True]


def test_a_hang_is_a_divergence_at_both_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its event is named, and the process plays the next tape."""
    engine = BuiltinEngine()
    single, whole = (Scope(level).of(engine.profiles)[0] for level in LEVELS)
    monkeypatch.setattr(engine, "evict", spin)
    tape = Tape(Config(level=whole.level, policy=whole.policies[0]), (Arrive(0, (1, 2)), Evict(1, 1)))
    found = drive_engine(tape, engine).divergence
    assert found is not None
    assert (found.kind, found.check, found.event) == ("hang", "hang", 1)
    assert found.what == "evict does not come back, and uses the processor all the time"
    target = BuiltinEngine()
    monkeypatch.setattr(target, "alloc", spin)
    tape = Tape(Config(policy=single.policies[0]), (Alloc(0, 1),))
    found = drive(tape, target, single).divergence
    assert found is not None
    assert (found.kind, found.event) == ("hang", 0)
    monkeypatch.undo()
    assert drive(tape, target, single).divergence is None


class PanicException(BaseException):
    """What a panic of Rust code becomes."""


def test_a_panic_is_a_crash_and_costs_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no Exception, and would end the worker."""
    engine = BuiltinEngine()
    whole = Scope("engine").of(engine.profiles)[0]

    def panic(*_arguments: object) -> None:
        raise PanicException("a lock was released twice")

    monkeypatch.setattr(engine, "evict", panic)
    tape = Tape(Config(level="engine", policy=whole.policies[0]), (Evict(1, 1),))
    found = drive_engine(tape, engine).divergence
    assert found is not None
    assert found.what == "evict raised PanicException: a lock was released twice"
