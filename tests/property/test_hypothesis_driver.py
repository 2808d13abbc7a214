"""The generator driven by Hypothesis: its choices are Hypothesis's, and so is the shrinking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from staleloc.sim.core.choices import Choices, HypothesisChoices
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.allocator.generate import generate
from staleloc.sim.parts.drive import drive
from staleloc.sim.parts.legality import find_violation
from staleloc.sim.targets.base import Profile, Target
from staleloc.sim.targets.builtin import BuiltinTarget
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin

FORWARD = frozenset({"alloc", "begin_forward", "write_kv", "end_forward"})


def played(data: st.DataObject, target: Target, profiles: Sequence[Profile]) -> tuple[Tape, Divergence | None]:
    """A tape drawn through Hypothesis, and where it diverges."""
    tape = generate(Choices(HypothesisChoices(data)), profiles)
    profile = next(profile for profile in profiles if profile.pool == tape.config.pool)
    return tape, drive(tape, target, profile).divergence


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_the_builtin_target_never_diverges(data: st.DataObject) -> None:
    """Every tape that Hypothesis draws is legal, and the correct target passes it."""
    tape, divergence = played(data, BuiltinTarget(), BuiltinTarget.profiles)
    assert find_violation(tape, BuiltinTarget.profiles)[1] is None
    assert divergence is None


def found(mutant: str, kinds: frozenset[str]) -> list[Tape]:
    """The diverging tapes that Hypothesis sees while it looks for one and shrinks it; the last is the simplest."""
    target = load_builtin(MUTANTS[mutant])
    (profile,) = MUTANTS[mutant].profiles(target.profiles)
    profiles = [replace(profile, page_sizes=(1,), policies=profile.policies[-1:], events=FORWARD | kinds)]
    diverged: list[Tape] = []

    # Without Phase.explain, which takes longer than everything else.
    @settings(max_examples=400, deadline=None, derandomize=True, database=None, phases=(Phase.generate, Phase.shrink))
    @given(st.data())
    def search(data: st.DataObject) -> None:
        tape, divergence = played(data, target, profiles)
        if divergence is not None:
            diverged.append(tape)
        assert divergence is None

    with pytest.raises(AssertionError):
        search()
    return diverged


def test_hypothesis_finds_a_mutant_and_shrinks_it() -> None:
    """A freed loc stays mapped: little more is left than a token and its free."""
    tapes = found("free-leaves-entries", frozenset({"free"}))
    kinds = [event.kind for event in tapes[-1].events]
    assert len(kinds) <= 8
    assert (kinds[0], kinds[-1]) == ("alloc", "free")
    assert tapes[-1].config.full_size == 3
