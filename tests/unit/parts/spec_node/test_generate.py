"""Tapes of a decode node whose requests speculate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staleloc.sim.core.choices import seeded
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.parts.legality import find_violation
from staleloc.sim.targets.base import Profile
from staleloc.sim.targets.builtin import BuiltinEngine

NODE = next(profile for profile in BuiltinEngine.profiles if profile.features == ("disagg", "spec"))

WITHIN_STEPS = replace(
    NODE, events=NODE.events - {"evict_window"}, missing={"evict_window": "a step's preparation evicts windows"}
)
"""A node that evicts windows as SGLang does."""


@pytest.mark.parametrize("profile", [NODE, WITHIN_STEPS], ids=["any-time", "within-steps"])
def test_a_tape_can_be_played_on_the_target_it_is_drawn_for(profile: Profile) -> None:
    """A campaign plays what is drawn without asking; shrinking asks."""
    for index in range(60):
        tape = generate_tape(seeded(0, index), [profile])
        assert find_violation(tape, [profile]) == (profile, None)


def test_windows_are_evicted_between_steps_where_a_target_does_that() -> None:
    """So the test above can fail."""
    drawn = [generate_tape(seeded(0, index), [NODE]) for index in range(20)]
    assert any(event.kind == "evict_window" for tape in drawn for event in tape.events)


def test_the_builtin_target_is_silent_where_steps_evict_windows() -> None:
    for index in range(20):
        assert drive_engine(generate_tape(seeded(0, index), [WITHIN_STEPS]), BuiltinEngine()).divergence is None
