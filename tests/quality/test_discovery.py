"""Every defect is found from every seed, and nothing else is. Budgets are events, never seconds.

Each defect is looked for from one seed, one after the other from the next; STALELOC_LONG=1 takes all twenty, and
plays the clean target for as many events as a mutant may take.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from plain_run import LONG

from staleloc.sim.targets.base import Profile
from staleloc.sim.targets.builtin import BuiltinTarget
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin

SEEDS = range(20)
BUDGET = 20_000

CLEAN_BUDGET = BUDGET if LONG else 1_000

NAMES = [name for name, mutant in MUTANTS.items() if (mutant.target, mutant.level) == ("builtin", "allocator")]

SELECTIONS: dict[str, tuple[Profile, ...]] = {
    "all": BuiltinTarget.profiles,
    **{
        f"{MUTANTS[name].pool}: {', '.join(MUTANTS[name].policies)}": MUTANTS[name].profiles(BuiltinTarget.profiles)
        for name in NAMES
    },
}
"""What the clean target is played with: everything it has, and whatever a mutant is looked for with."""


@pytest.mark.parametrize("name", NAMES)
def test_every_mutant_is_found_from_every_seed(name: str, hunt: Callable[..., Any]) -> None:
    """A seed that misses it would let a real bug of its kind through."""
    target = load_builtin(MUTANTS[name])
    profiles = MUTANTS[name].profiles(target.profiles)
    seeds = SEEDS if LONG else SEEDS[NAMES.index(name) % 20 :: 20]
    missed = [seed for seed in seeds if hunt(target, profiles, seed, BUDGET).divergence is None]
    assert missed == []


@pytest.mark.parametrize("seeds", [range(first, first + 5) for first in SEEDS[::5]], ids=str)
@pytest.mark.parametrize("selection", SELECTIONS)
def test_the_clean_target_is_silent_from_every_seed(selection: str, seeds: range, hunt: Callable[..., Any]) -> None:
    """On the same seeds: what finds a mutant finds nothing where there is none."""
    target = BuiltinTarget()
    for seed in seeds if LONG else seeds[:1]:
        outcome = hunt(target, SELECTIONS[selection], seed, CLEAN_BUDGET)
        assert outcome.divergence is None
        assert outcome.events >= CLEAN_BUDGET
