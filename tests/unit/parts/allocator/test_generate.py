"""Tapes out of choices: the same for the same seed, always legal, and between them everywhere."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from hashlib import sha256

import pytest

from staleloc.models.situations import SITUATIONS
from staleloc.sim.core.choices import Choices, seeded
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.allocator.events import KINDS, SOURCES, BeginForward, Translate
from staleloc.sim.parts.allocator.generate import generate
from staleloc.sim.parts.drive import drive
from staleloc.sim.parts.legality import find_violation
from staleloc.sim.tapes.codec import dumps, loads
from staleloc.sim.targets.base import Profile
from staleloc.sim.targets.builtin import BuiltinTarget

HYBRID, DSV4 = BuiltinTarget.profiles

PROFILES: dict[str, tuple[Profile, ...]] = {
    "builtin": BuiltinTarget.profiles,
    "hybrid": (HYBRID,),
    "dsv4": (DSV4,),
    "translated once a forward": (replace(HYBRID, per_forward=True),),
    "no translation up front": (replace(HYBRID, precomputed=False),),
    "all layers SWA": (replace(DSV4, all_swa=True, policies=("native",)),),
    "slots only": (replace(HYBRID, page_sizes=(1,)),),
    "large pages only": (replace(HYBRID, page_sizes=(64,)),),
    "no optional events": (
        replace(HYBRID, events=frozenset({"alloc", "alloc_extend", "begin_forward", "write_kv", "end_forward"})),
    ),
}

DIGEST = """
from hashlib import sha256
from staleloc.sim.core.choices import seeded
from staleloc.sim.parts.allocator.generate import generate
from staleloc.sim.tapes.codec import dumps
from staleloc.sim.targets.builtin import BuiltinTarget
tapes = (dumps(generate(seeded(7, index), BuiltinTarget.profiles)) for index in range(40))
print(sha256("".join(tapes).encode()).hexdigest())
"""


class Constant:
    """A source with the same answer to every question."""

    simplifies = False

    def __init__(self, highest: bool) -> None:
        self.highest = highest

    def integer(self, low: int, high: int) -> int:
        return high if self.highest else low


def tapes(count: int, profiles: tuple[Profile, ...] = BuiltinTarget.profiles, seed: int = 0) -> list[Tape]:
    return [generate(seeded(seed, index), profiles) for index in range(count)]


# The same


def test_a_seed_makes_the_same_bytes_every_time() -> None:
    """Whatever else draws random numbers in between."""
    first = [dumps(tape) for tape in tapes(20)]
    random.seed(0)
    assert [dumps(tape) for tape in tapes(20)] == first
    assert len(set(first)) == len(first)


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_seed_makes_the_same_bytes_in_another_process(hash_seed: str) -> None:
    """Sets and dictionaries in another order change nothing."""
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True, check=True)
    here = "".join(dumps(generate(seeded(7, index), BuiltinTarget.profiles)) for index in range(40))
    assert done.stdout.strip() == sha256(here.encode()).hexdigest()


def test_another_seed_makes_another_tape() -> None:
    """And so does another number."""
    assert len({dumps(tape) for seed in range(10) for tape in tapes(10, seed=seed)}) == 100


def test_a_generated_tape_survives_its_file() -> None:
    """Whatever is generated can be written and read."""
    for tape in tapes(60):
        assert loads(dumps(tape)) == tape


# Legal


@pytest.mark.parametrize("name", PROFILES)
def test_every_tape_is_legal(name: str) -> None:
    """No tape asks for what a profile does not have or a scheduler would not do."""
    profiles = PROFILES[name]
    for tape in tapes(150, profiles):
        profile, reason = find_violation(tape, profiles)
        assert profile is not None, reason
        assert profile.pool == tape.config.pool


@pytest.mark.parametrize("highest", [False, True])
def test_the_simplest_and_the_wildest_choices_make_a_legal_tape(highest: bool) -> None:
    """A source with one answer to everything comes to an end, too."""
    tape = generate(Choices(Constant(highest)), BuiltinTarget.profiles)
    assert find_violation(tape, BuiltinTarget.profiles)[1] is None


def test_a_source_that_simplifies_can_end_a_tape_at_once() -> None:
    """The empty tape is the simplest of all, and legal."""

    class Simplest(Constant):
        simplifies = True

    tape = generate(Choices(Simplest(highest=False)), BuiltinTarget.profiles)
    assert tape.events == ()
    assert find_violation(tape, BuiltinTarget.profiles)[1] is None


# Everywhere


def test_every_event_and_every_situation_is_reached() -> None:
    """Within 700 tapes of one seed (some 40,000 events) the builtin target has been everywhere and never diverged."""
    target = BuiltinTarget()
    kinds: set[str] = set()
    seen: Counter[str] = Counter()
    for tape in tapes(700):
        profile = HYBRID if tape.config.pool == "hybrid" else DSV4
        verdict = drive(tape, target, profile)
        assert verdict.divergence is None
        seen += verdict.seen
        kinds.update(event.kind for event in tape.events)
    assert kinds == set(KINDS)
    assert set(seen) == set(SITUATIONS)


def test_every_part_of_a_cache_is_drawn() -> None:
    """Pools, policies, page sizes, dtypes, sorting and orders of layers all come up, and none of them rarely."""
    configs = [tape.config for tape in tapes(400)]
    for profile in BuiltinTarget.profiles:
        held = [config for config in configs if config.pool == profile.pool]
        assert len(held) > 120
        for name, options in (
            ("policy", profile.policies),
            ("page_size", profile.page_sizes),
            ("dtype", profile.dtypes),
        ):
            counts = Counter(getattr(config, name) for config in held)
            assert set(counts) == set(options)
            assert min(counts.values()) > len(held) / len(options) / 2
    assert {config.need_sort for config in configs} == {False, True}
    assert {config.layers[0] for config in configs} == {"full", "swa"}
    assert any(config.swa_size < config.full_size for config in configs)


def test_caches_are_small() -> None:
    """Slots come back within one tape: at most two dozen pages in a pool."""
    assert max(tape.config.full_pages for tape in tapes(200)) <= 24
    assert min(tape.config.swa_pages for tape in tapes(200)) >= 2


def test_every_way_to_hold_locs_is_drawn() -> None:
    """Forwards in fresh, reused and viewed memory, with and without a translation; translations of every source."""
    events = [event for tape in tapes(200) for event in tape.events]
    forwards = [event for event in events if isinstance(event, BeginForward)]
    assert {event.storage for event in forwards} == {"fresh", "reused", "view"}
    assert {event.precomputed for event in forwards} == {False, True}
    assert max(len(event.spans) for event in forwards) > 3
    assert {event.source for event in events if isinstance(event, Translate)} == set(SOURCES)


def test_tapes_are_long_enough_to_go_deep_and_short_enough_to_start_over() -> None:
    """Between one and 128 events, some fifty on average, and one in ten writes a layer."""
    all_tapes = tapes(300)
    lengths = [len(tape.events) for tape in all_tapes]
    assert min(lengths) >= 1
    assert max(lengths) == 128
    assert 40 < sum(lengths) / len(lengths) < 80
    counts = Counter(event.kind for tape in all_tapes for event in tape.events)
    assert counts["write_kv"] > sum(lengths) / 15


def test_each_tape_has_events_of_its_own_choice() -> None:
    """Swarm testing: every event that a tape can do without is missing from many tapes that could have it."""
    optional = set(KINDS) - {"alloc", "alloc_extend", "begin_forward", "write_kv", "end_forward"}
    slots = tapes(120, (replace(HYBRID, page_sizes=(1,)),))
    pages = tapes(120, (replace(HYBRID, page_sizes=(4,)),))
    for kind in optional:
        with_it = sum(any(event.kind == kind for event in tape.events) for tape in slots + pages)
        assert 10 < with_it < 200, kind


def test_sizes_come_back() -> None:
    """In most tapes some allocation is as large as another one: stale answers hide behind equal lengths."""
    same = 0
    for tape in tapes(100, (replace(HYBRID, page_sizes=(1,)),)):
        counts = Counter(getattr(event, "count", 0) for event in tape.events if event.kind == "alloc")
        same += max(counts.values(), default=0) > 1
    assert same > 80
