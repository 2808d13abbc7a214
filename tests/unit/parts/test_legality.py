"""Whether a target can play a tape: which profile it is played under, or the one line that says why none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staleloc.models.config import Config
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.allocator.events import Alloc, BeginForward, CpuCopy, EndForward, Free, FreeSwa, Move
from staleloc.sim.parts.decode_node.events import DraftSlots
from staleloc.sim.parts.legality import find_violation, unfit
from staleloc.sim.targets.base import Profile

HYBRID = Profile(
    pool="hybrid",
    policies=("uncached", "memo"),
    page_sizes=(1, 4),
    dtypes=("float32", "bfloat16"),
    events=frozenset({"alloc", "begin_forward", "end_forward", "free_swa"}),
    missing={"move": "accepted tokens are moved by another pool"},
)
DSV4 = replace(HYBRID, pool="dsv4", policies=("native",), page_sizes=(1,), all_swa=True)
ENGINE = replace(HYBRID, level="engine", host=True)
CONFIG = Config(policy="memo")
HOSTED = Config(policy="memo", level="engine", host_full_size=33, host_swa_size=17)
SMALL_HOST = (
    "its host has 16 SWA slots for 16 on the device, and this target's host pools must be larger than its device pools"
)
PRECOMPUTED = BeginForward(((0, 0, 1),), precomputed=True)


def test_a_cache_that_fits_needs_no_reason() -> None:
    """Pool, policy, page size, dtype and layers are all the profile's."""
    assert unfit(CONFIG, HYBRID) is None
    assert unfit(replace(CONFIG, pool="dsv4", policy="native", layers=("swa", "swa")), DSV4) is None


@pytest.mark.parametrize(
    ("config", "profile", "reason"),
    [
        (
            replace(CONFIG, pool="dsv4"),
            HYBRID,
            "it wants pool dsv4 with policy memo, and this target has hybrid with uncached, memo",
        ),
        (
            replace(CONFIG, policy="native"),
            HYBRID,
            "it wants pool hybrid with policy native, and this target has hybrid with uncached, memo",
        ),
        (
            replace(CONFIG, page_size=2),
            HYBRID,
            "it wants page size 2, and this target's hybrid pool has (1, 4)",
        ),
        (
            replace(CONFIG, dtype="float16"),
            HYBRID,
            "it wants dtype float16, and this target's hybrid pool has float32, bfloat16",
        ),
        (
            replace(CONFIG, pool="dsv4", policy="native"),
            DSV4,
            "it has full-attention layers, and every layer of this target's dsv4 pool is an SWA layer",
        ),
        (HOSTED, ENGINE, None),
        (replace(HOSTED, host_swa_size=16), ENGINE, SMALL_HOST),
        (replace(HOSTED, host_swa_size=16), replace(ENGINE, small_host=True), None),
        (HOSTED, replace(ENGINE, host=False), "it has a host tier, and this target has none"),
    ],
)
def test_a_cache_that_a_target_cannot_hold_is_told_why(config: Config, profile: Profile, reason: str | None) -> None:
    """Both what is wanted and what there is are named."""
    assert unfit(config, profile) == reason


@pytest.mark.parametrize(
    ("event", "profile", "reason"),
    [
        (Alloc(0, 1), HYBRID, None),
        (Move(0, 0, 1, 1), HYBRID, "accepted tokens are moved by another pool"),
        (CpuCopy(0, 0, 0, 1), HYBRID, "this target has no cpu_copy"),
        (PRECOMPUTED, HYBRID, "this target takes no translation made up front (set_swa_loc)"),
        (PRECOMPUTED, replace(HYBRID, precomputed=True), None),
        (PRECOMPUTED, replace(HYBRID, per_forward=True), None),
        (replace(PRECOMPUTED, precomputed=False), HYBRID, None),
    ],
)
def test_an_event_that_a_target_cannot_execute_is_told_why(event: Event, profile: Profile, reason: str | None) -> None:
    """With the target's own reason, if it gives one."""
    assert event.lacks(profile) == reason


def test_a_tape_is_played_under_the_profile_that_fits() -> None:
    """Whatever the order of profiles."""
    tape = Tape(CONFIG, (Alloc(0, 1), BeginForward(((0, 0, 1),)), EndForward()))
    assert find_violation(tape, [DSV4, HYBRID]) == (HYBRID, None)


def test_a_tape_for_another_cache_gets_a_reason_of_each_profile() -> None:
    """A user sees everything the target has."""
    profile, reason = find_violation(Tape(replace(CONFIG, page_size=2), ()), [DSV4, HYBRID])
    assert profile is None
    assert reason == (
        "it wants pool hybrid with policy memo, and this target has dsv4 with native; "
        "it wants page size 2, and this target's hybrid pool has (1, 4)"
    )


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ((Alloc(0, 2), FreeSwa(0, 1, 3)), "event 2 (free_swa) cannot be played: the span must lie inside"),
        ((Alloc(0, 2), FreeSwa(0, 0, 1), FreeSwa(0, 0, 2)), "event 3 (free_swa) cannot be played: the evicted length"),
        ((Alloc(0, 2), Free(0, 0)), "event 2 (free) cannot be played: this target has no free"),
        ((Alloc(0, 40), FreeSwa(0, 0, 1)), "event 2 (free_swa) cannot be played: the span must lie inside"),
    ],
)
def test_the_first_event_that_cannot_be_played_is_named(events: tuple[Event, ...], reason: str) -> None:
    """By its number, counted from 1, and its kind; an allocation that does not fit counts as refused."""
    profile, text = find_violation(Tape(CONFIG, events), [HYBRID])
    assert profile is None
    assert text is not None
    assert text.startswith(reason)


def test_a_target_that_translates_once_a_forward_freezes_every_batch() -> None:
    """The same tape is legal on a target that translates late."""
    tape = Tape(CONFIG, (Alloc(0, 2), BeginForward(((0, 0, 2),)), FreeSwa(0, 0, 1)))
    assert find_violation(tape, [HYBRID]) == (HYBRID, None)
    profile, reason = find_violation(tape, [replace(HYBRID, per_forward=True)])
    assert profile is None
    assert reason is not None
    assert "the batch was translated once when its forward began" in reason


def test_a_tape_of_another_level_is_told_so_in_one_sentence() -> None:
    """However many profiles the target has, and by the target's name."""
    reason = "this is an engine-level tape; builtin can be driven at the allocator level only"
    assert find_violation(Tape(HOSTED, ()), [HYBRID, DSV4], "builtin") == (None, reason)


def test_reasons_come_from_profiles_of_the_tape_s_level() -> None:
    """Those of another level could not have played it anyhow."""
    _, reason = find_violation(Tape(replace(HOSTED, page_size=2), ()), [HYBRID, DSV4, ENGINE])
    assert reason == "it wants page size 2, and this target's hybrid pool has (1, 4)"


def test_a_profile_s_own_reason_is_given_at_the_engine_level_too() -> None:
    """For an event, and for the tree that a decode node lacks."""
    config = Config(policy="memo", level="engine", features=("disagg",))
    node = replace(ENGINE, features=("disagg",), events=frozenset({"arrive"}))
    told = replace(node, missing={"evict": "it has no tree", "draft_slots": "nobody drafts"})
    tape = Tape(config, (DraftSlots((0,), 1),))
    start = "event 1 (draft_slots) cannot be played: "
    assert find_violation(tape, [node]) == (None, f"{start}this target has no such event at this level")
    assert find_violation(tape, [told]) == (None, f"{start}nobody drafts")
    start = "its decode node keeps a prefix tree, and this target's does not"
    assert unfit(replace(config, decode_tree=True), node) == start
    assert unfit(replace(config, decode_tree=True), told) == f"{start}: it has no tree"
