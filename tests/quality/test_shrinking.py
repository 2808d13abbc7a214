"""How small a tape gets: a local minimum, the same every time, and for simple bugs the one program to expect.

Tapes of every other mutant are tried for being local minima, of every third for being short; STALELOC_LONG=1 takes all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, cached_property
from statistics import median
from typing import Any

import pytest
from plain_run import LONG

from staleloc.models.config import Config
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.allocator.events import Alloc, Backup, Clear, Free, RegisterMapping, Restore
from staleloc.sim.parts.drive import play_tape
from staleloc.sim.tapes.reshape import repair
from staleloc.sim.tapes.shrink import Judge, Shrunk, shrink
from staleloc.sim.targets.base import Profile, Target
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin

BUDGET = 20_000

SEEDS = range(3)

LOCAL_MINIMA = (
    "memo-drop-invalidate-alloc",
    "memo-drop-invalidate-set-mapping",
    "memo-drop-invalidate-begin-forward",
    "first-layer-drop-invalidate-alloc-decode",
    "first-layer-drop-invalidate-register-mapping",
    "memo-key-storage-base",
    "side-channel-answers-everything",
    "tail-keeps-former-owner",
    "sort-loses-free-list",
    "group-end-frees-twice",
    "group-resolves-late",
    "free-swa-clears-given-locs",
    "clear-zeroes-sentinel",
    "cpu-copy-without-mask",
    "cpu-load-filter-drops-values",
    "move-forgets-values",
)

_SITES = ("alloc", "alloc-extend", "alloc-extend-swa-tail", "free-swa", "clear", "set-mapping", "register-mapping")

TYPICAL: dict[str, int] = {
    **{f"{policy}-drop-invalidate-{site}": 6 for policy in ("memo", "first-layer") for site in _SITES},
    "first-layer-drop-invalidate-alloc-extend": 7,
    # A decode step takes a page only when its request's last one is full: that request has to get there first.
    "memo-drop-invalidate-alloc-decode": 8,
    "first-layer-drop-invalidate-alloc-decode": 8,
    "memo-drop-invalidate-begin-forward": 6,
    "first-layer-drop-invalidate-begin-forward": 6,
    "memo-key-storage-base": 6,
    "memo-key-without-numel": 6,
    "side-channel-keeps-previous": 6,
    # Two forwards that get to their second layer; with a longer second batch the first sign is a crash there.
    "first-layer-start-layer-only": 8,
    "tail-keeps-former-owner": 6,
    # A row is written, copied, and loaded where there is a slot; often the slot has to be taken away first.
    "cpu-copy-without-mask": 7,
    "cpu-load-old-mask-only": 6,
}
"""Mutant -> events that a shrunk tape typically has."""

PROGRAMS: dict[str, tuple[int, int, tuple[Event, ...]]] = {
    "free-leaves-entries": (1, 1, (Alloc(0, 1), Free(0, 0))),
    "clear-keeps-mapping": (1, 1, (Alloc(0, 1), Clear())),
    "restore-without-mapping": (1, 1, (Backup(), Alloc(0, 1), Restore())),
    "register-mapping-leaks": (2, 2, (Alloc(0, 1), RegisterMapping(0, 0, 1))),
    "alloc-refusal-keeps-slots": (2, 1, (Alloc(0, 2),)),
}
"""Mutant -> sizes of the pools, and the one smallest program on slots."""


class Case:
    """A mutant's tape from one seed, and who judges it."""

    def __init__(self, name: str, seed: int, hunt: Callable[..., Any], page_sizes: tuple[int, ...] = ()) -> None:
        self.target: Target = load_builtin(MUTANTS[name])
        profiles = [
            replace(p, page_sizes=page_sizes or p.page_sizes) for p in MUTANTS[name].profiles(self.target.profiles)
        ]
        found = hunt(self.target, profiles, seed, BUDGET)
        assert found.divergence is not None
        self.tape: Tape = found.tape
        self.profile: Profile = found.profile
        self.divergence: Divergence = found.divergence

    def judge(self, tape: Tape) -> Divergence | None:
        return play_tape(tape, self.target, self.profile).divergence

    @cached_property
    def shrunk(self) -> Shrunk:
        return shrink(self.tape, self.divergence, self.profile, self.judge)


Cases = Callable[..., Case]


@pytest.fixture(scope="module")
def case_of(hunt: Callable[..., Any]) -> Cases:
    """By mutant, seed and page sizes. Each is looked for and shrunk once, whatever tests ask of it."""
    return cache(lambda name, seed, page_sizes=(): Case(name, seed, hunt, page_sizes))


def same_bug(divergence: Divergence | None, tape: Tape, shrunk: Shrunk) -> bool:
    """Class, check, decisive situation and the kind of event that made the loc stale are what they were."""
    return divergence is not None and _bug(divergence, tape) == _bug(shrunk.divergence, shrunk.tape)


def _bug(divergence: Divergence, tape: Tape) -> tuple[object, ...]:
    culprit = None if divergence.stale_at is None else tape.events[divergence.stale_at].kind
    return *divergence.key, divergence.during, culprit


@pytest.mark.parametrize("name", LOCAL_MINIMA if LONG else LOCAL_MINIMA[::2])
def test_a_shrunk_tape_is_a_local_minimum(name: str, case_of: Cases) -> None:
    """Without any one of its events, and repaired, the tape no longer shows the bug: all are tried."""
    case = case_of(name, 0)
    shrunk = case.shrunk
    assert shrunk.minimal
    events = shrunk.tape.events
    for gone in range(len(events)):
        rest = repair(shrunk.tape.config, events[:gone] + events[gone + 1 :], case.profile)
        candidate = replace(shrunk.tape, events=rest)
        assert not same_bug(case.judge(candidate), candidate, shrunk)


@pytest.mark.parametrize("name", LOCAL_MINIMA if LONG else LOCAL_MINIMA[::2])
def test_a_shrunk_tape_shows_the_same_bug(name: str, case_of: Cases) -> None:
    """Played again it diverges as the shrinker says: class and check of the original, at its last event."""
    case = case_of(name, 0)
    shrunk = case.shrunk
    assert case.judge(shrunk.tape) == shrunk.divergence
    assert shrunk.divergence.key == case.divergence.key
    assert shrunk.divergence.event == len(shrunk.tape.events) - 1
    assert shrunk.before == len(case.tape.events)
    assert len(shrunk.tape.events) <= shrunk.before


@pytest.mark.parametrize("name", LOCAL_MINIMA[::4])
def test_shrinking_is_deterministic(name: str, hunt: Callable[..., Any], case_of: Cases) -> None:
    """The same tape, found and shrunk twice, ends in the same tape after the same candidates."""
    assert Case(name, 2, hunt).shrunk == case_of(name, 2).shrunk


@pytest.mark.parametrize("name", TYPICAL if LONG else list(TYPICAL)[::3])
def test_a_shrunk_tape_is_short(name: str, case_of: Cases) -> None:
    """Six events are typical; local minima of a few more occur, and never of many more."""
    lengths = [len(case_of(name, seed).shrunk.tape.events) for seed in SEEDS]
    assert median(lengths) <= TYPICAL[name]
    assert max(lengths) <= 12


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_simple_bug_shrinks_to_one_program(name: str, case_of: Cases) -> None:
    """From every seed, to the same events on the same pools: the smallest there are."""
    full, swa, events = PROGRAMS[name]
    for seed in SEEDS:
        case = case_of(name, seed, (1,))
        tape = case.shrunk.tape
        assert tape.events == events
        assert tape.config == Config(
            policy=case.tape.config.policy,
            full_size=full,
            swa_size=swa,
            layers=("swa",),
            window=case.tape.config.window,
            dtype=case.tape.config.dtype,
        )


def test_a_shrink_stops_when_its_budget_is_spent(case_of: Cases) -> None:
    """What it has by then still shows the bug, and it says that it is not minimal."""
    case = case_of("cpu-copy-without-mask", 0)
    shrunk = shrink(case.tape, case.divergence, case.profile, case.judge, budget=5)
    assert (shrunk.candidates, shrunk.minimal) == (5, False)
    assert same_bug(case.judge(shrunk.tape), shrunk.tape, shrunk)


def test_a_shrink_does_not_slide_to_another_bug(case_of: Cases) -> None:
    """A judge that knows a smaller tape with another bug is not listened to."""
    case = case_of("move-forgets-values", 0)

    def tempting(tape: Tape) -> Divergence | None:
        true = case.judge(tape)
        return true if true is not None or not tape.events else Divergence("leak", "conservation", 0, "something else")

    judge: Judge = tempting
    shrunk = shrink(case.tape, case.divergence, case.profile, judge)
    assert shrunk.divergence.key == case.divergence.key
    assert case.judge(shrunk.tape) == shrunk.divergence
