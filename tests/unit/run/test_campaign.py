"""Campaigns: the same findings on any number of workers, whatever happens to them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from staleloc.sim.core.choices import seeded
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.parts.allocator.generate import generate
from staleloc.sim.parts.drive import drive
from staleloc.sim.run import campaign
from staleloc.sim.run.campaign import CHUNK, Budget, Campaign, Results
from staleloc.sim.run.process import WorkerProcess
from staleloc.sim.targets.base import Scope, TargetError
from staleloc.sim.targets.builtin import BuiltinEngine, BuiltinTarget
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin

Spoil = Callable[[str], Path]

MUTANT = "register-mapping-misses-pool"
TAPES = 90
SICK = 21
"""Number of the tape on which a hostile target misbehaves; its cache is like that of no other tape."""


def run(workers: int, mutant: str | None = MUTANT, **budget: Any) -> Results:
    return Campaign("builtin", 3, Budget(**budget), workers, mutant).run()


def summary(results: Results) -> tuple[object, ...]:
    """Everything that must not depend on workers."""
    return results.found, results.diverged, results.tapes, results.events, results.seen


def only_on_the_sick_tape(code: str) -> str:
    """Hostile code that runs when the sick tape's cache is built."""
    configs = [generate(seeded(3, index), BuiltinTarget.profiles).config for index in range(TAPES)]
    assert configs.count(configs[SICK]) == 1
    return f"""
def hostile(self, config):
    if config == {configs[SICK]!r}:
        {code}
    build(self, config)
BuiltinTarget.build = hostile
"""


@pytest.fixture(scope="module")
def alone() -> Results:
    """The findings of one worker."""
    return run(1, tapes=TAPES)


@pytest.fixture(scope="module")
def clean() -> Results:
    """What the clean target shows."""
    return run(1, None, tapes=TAPES)


def test_a_campaign_plays_the_tapes_of_its_seed(alone: Results) -> None:
    """Each number once, and for each kind of divergence the tape with the smallest number is kept."""
    target = load_builtin(MUTANTS[MUTANT])
    profiles = MUTANTS[MUTANT].profiles(target.profiles)
    diverging = []
    events = 0
    for index in range(TAPES):
        tape = generate(seeded(3, index), profiles)
        verdict = drive(tape, target, profiles[0])
        events += verdict.events
        if verdict.divergence is not None:
            diverging.append((index, tape, verdict.divergence))
    assert (alone.tapes, alone.events, alone.diverged) == (TAPES, events, len(diverging))
    assert len(alone.found) > 1
    assert [found.index for found in alone.found] == sorted(found.index for found in alone.found)
    assert alone.found[0].index == diverging[0][0]
    for found in alone.found:
        assert (found.index, found.tape, found.divergence) in diverging


@pytest.mark.parametrize("workers", [2, 3])
def test_the_findings_do_not_depend_on_the_number_of_workers(alone: Results, workers: int) -> None:
    """Findings, tapes, events and situations are the same."""
    assert summary(run(workers, tapes=TAPES)) == summary(alone)


@pytest.mark.parametrize("workers", [1, 3])
def test_the_first_divergence_is_the_first_on_any_number_of_workers(alone: Results, workers: int) -> None:
    """It has the smallest number, even if another worker saw a later one before."""
    results = run(workers, first=True)
    assert results.found == alone.found[:1]
    assert results.tapes == alone.found[0].index + 1


def test_a_clean_target_has_no_findings(clean: Results) -> None:
    """And nothing to note."""
    assert (clean.found, clean.diverged, clean.notes, clean.tapes) == ([], 0, [], TAPES)


def test_a_budget_in_seconds_ends_a_campaign() -> None:
    """However many tapes there are; the clock starts when a target is loaded, which takes longer than this."""
    results = run(1, None, seconds=0.1)
    assert results.tapes > 0
    assert results.found == []


def test_progress_is_told_now_and_then() -> None:
    """After every few tapes, with what is known by then."""
    told: list[int] = []
    Campaign("builtin", 3, Budget(tapes=40), 1, progress=lambda results: told.append(results.tapes)).run()
    assert told == [CHUNK, 2 * CHUNK]


# What happens to workers


def test_a_killed_worker_loses_nothing(alone: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed from outside in the middle of a campaign, it is replaced, and the findings are the same."""
    started: list[WorkerProcess] = []

    def start(*arguments: Any) -> WorkerProcess:
        started.append(WorkerProcess(*arguments))
        return started[-1]

    killed: list[int] = []

    def kill(results: Results) -> None:
        if not killed:
            killed.append(started[0]._process.pid)
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(campaign, "WorkerProcess", start)
    results = Campaign("builtin", 3, Budget(tapes=TAPES), 2, MUTANT, progress=kill).run()
    assert killed
    assert summary(results) == summary(alone)
    assert len(results.notes) == len(started) - 2 <= 1
    assert all("the worker was killed by SIGKILL" in note for note in results.notes)


def test_a_tape_on_which_a_worker_was_killed_is_played_again(clean: Results, hostile: Spoil) -> None:
    """A note says so; if the second time goes well there is nothing else to say."""
    hostile(
        only_on_the_sick_tape(
            'if not (HERE / "once").exists(): (HERE / "once").touch(); os.kill(os.getpid(), signal.SIGKILL)'
        )
    )
    results = run(2, None, tapes=TAPES)
    assert summary(results) == summary(clean)
    assert results.notes == [f"the worker was killed by SIGKILL at tape {SICK}; a new worker played it again"]


def test_a_worker_that_is_killed_twice_on_a_tape_ends_the_campaign(hostile: Spoil) -> None:
    """Nothing is known about the target then, and going on would take memory that is not there."""
    hostile(only_on_the_sick_tape("os.kill(os.getpid(), signal.SIGKILL)"))
    with pytest.raises(TargetError, match=f"killed by SIGKILL twice at tape {SICK}: out of memory"):
        run(1, None, tapes=TAPES)


def test_a_target_that_takes_its_process_down_crashes_on_that_tape(clean: Results, hostile: Spoil) -> None:
    """The tape is found, with a note, and all others are played."""
    hostile(only_on_the_sick_tape("os.abort()"))
    results = run(2, None, tapes=TAPES)
    (found,) = results.found
    assert (found.index, found.divergence.key) == (SICK, ("crash", "crash"))
    assert found.divergence.what == "the worker was killed by SIGABRT"
    assert found.tape == generate(seeded(3, SICK), BuiltinTarget.profiles)
    assert (results.tapes, results.diverged) == (TAPES, 1)
    assert results.events == clean.events - len(found.tape.events)
    assert len(results.notes) == 1


def test_a_target_that_hangs_is_a_finding_and_the_campaign_goes_on(
    clean: Results, hostile: Spoil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tape is found after it has hung in a fresh process too, and all others are played."""
    hostile(only_on_the_sick_tape("sum(itertools.count())"))
    monkeypatch.setattr(campaign, "WorkerProcess", partial(WorkerProcess, answer_seconds=1.0))
    results = run(2, None, tapes=TAPES)
    (found,) = results.found
    assert (found.index, found.divergence.key) == (SICK, ("hang", "hang"))
    assert found.divergence.what == "the target gives no answer, and uses the processor all the time"
    assert (results.tapes, results.events) == (TAPES, clean.events - len(found.tape.events))


def test_a_harness_that_cannot_drive_the_target_ends_the_campaign(hostile: Spoil) -> None:
    """At once, although another worker could go on for minutes."""
    hostile(only_on_the_sick_tape('raise TargetError("this cache cannot be built")'))
    started = time.monotonic()
    with pytest.raises(TargetError, match=r"^this cache cannot be built$"):
        run(2, None, seconds=300)
    assert time.monotonic() - started < 200


def test_a_target_that_cannot_be_loaded_ends_the_campaign(hostile: Spoil) -> None:
    """Before a tape is played."""
    hostile("BuiltinTarget.__init__ = lambda self: os._exit(7)")
    with pytest.raises(TargetError, match="builtin could not be loaded: the worker exited with code 7"):
        run(1, None, tapes=TAPES)


def test_ctrl_c_again_while_a_campaign_ends_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The results come back, from wherever the second one strikes."""
    presses = 0

    def interrupt(*_: object) -> None:
        nonlocal presses
        presses += 1
        if presses <= 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(campaign, "as_completed", interrupt)
    monkeypatch.setattr(campaign, "kill_workers", interrupt)
    results = Campaign("builtin", 3, Budget(tapes=10**6), 1).run()
    assert presses == 4
    assert results.notes == ["interrupted; these are the results so far"]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_target_that_keeps_dying_ends_the_campaign(
    hostile: Spoil, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a few tapes, at the same one on any number of workers, and a note says so."""
    monkeypatch.setattr(campaign, "MAX_LOST", 2)
    hostile("BuiltinTarget.build = lambda self, config: os._exit(3)")
    results = Campaign("builtin", 3, Budget(tapes=TAPES), workers).run()
    assert (results.tapes, results.diverged) == (campaign.MAX_LOST, campaign.MAX_LOST)
    assert [found.index for found in results.found] == [0]
    assert results.notes[-1].startswith(f"the target crashed its process or hung on {campaign.MAX_LOST} tapes")


def test_answers_are_entered_in_the_order_of_tapes() -> None:
    """Whoever answers first: what follows the end of a campaign does not count."""
    played = Campaign("builtin", 3, Budget(first=True), 1)
    played._results.profiles = list(BuiltinTarget.profiles)
    failed = played._failed(1, "crash", "gone")
    silent = {"divergence": None, "place": [], "events": 7, "skipped": 0, "seen": {"moved": 1}}
    for answer in ({**silent, "tape": 2}, failed, {**failed, "tape": 3}):
        played._note(answer)
        assert played._results.tapes == 0
    played._note({**silent, "tape": 0})
    results = played._results
    assert (results.tapes, results.events, results.diverged, dict(results.seen)) == (2, 7, 1, {"moved": 1})


@pytest.mark.parametrize(("level", "kept"), [("engine", [0, 2, 3, 4]), ("allocator", [0])])
def test_of_whole_requests_some_wordings_of_a_kind_are_looked_at(
    level: str, kept: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another bug may differ from the first in nothing else; numbers in the words say nothing. The rest is counted."""
    monkeypatch.setattr(campaign, "MAX_WORDINGS", 4)
    alone = Campaign("builtin", 3, Budget(tapes=9), 1, None, Scope(level))
    alone._results.profiles = Scope(level).of([*BuiltinEngine.profiles])
    for index, what in enumerate(("slot 1 a", "slot 2 a", "slot 3 b", "c", "d", "e")):
        alone._keep(index, Divergence("wrong-content", "rows", 1, what), {"place": ["start"]})
    assert [found.index for examples in alone._kinds.values() for found in examples] == kept
    assert (alone._results.diverged, alone._passed_over) == (6, int(level == "engine"))


def test_a_campaign_goes_on_where_another_ended_and_keeps_examples() -> None:
    """Two halves play the tapes of the whole, and keep the same first tape of a kind and more of it."""
    words = ("builtin", 0)
    whole = Campaign(*words, Budget(tapes=64), 1, MUTANT).run()
    first = Campaign(*words, Budget(tapes=32), 1, MUTANT).run()
    second = Campaign(*words, Budget(tapes=32), 1, MUTANT, start=32, examples=2).run()
    assert (first.diverged + second.diverged, first.tapes + second.tapes) == (whole.diverged, 64)
    assert all(found.index >= 32 for found in second.found)
    assert {found.divergence.key for found in second.found} <= {found.divergence.key for found in whole.found}
    assert len(second.found) > len({found.divergence.key for found in second.found})
