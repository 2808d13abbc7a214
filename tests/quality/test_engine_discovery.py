"""The same at the engine level: every defect is found from every seed, and nothing else is.

Each defect is looked for from one seed that finds it early, or one after the other from the next;
STALELOC_LONG=1 takes all twenty, and plays the clean target for as many events as a mutant may take.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from early import early
from plain_run import LONG

from staleloc.models.config import CHECKS
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin

SEEDS = range(20)
BUDGET = 50_000

CLEAN_BUDGET = BUDGET if LONG else 1_000

ELSEWHERE = {"disagg", "scheduler", "overlap"}
"""Features whose mutants have files of their own."""

ENGINES = {name: it for name, it in MUTANTS.items() if (it.target, it.level) == ("builtin", "engine")}
ALL = [name for name, mutant in ENGINES.items() if "spec" not in mutant.features]
NAMES = [name for name in ALL if not ELSEWHERE.intersection(ENGINES[name].features)]

SCOPES = {"plain": Scope("engine"), "graphs": Scope("engine", ("graphs",))}


@pytest.mark.parametrize("name", NAMES)
def test_every_mutant_is_found_from_every_seed(name: str, hunt: Callable[..., Any]) -> None:
    """A seed that misses it would let a real bug of its kind through."""
    target = load_builtin(MUTANTS[name])
    profiles = MUTANTS[name].profiles(target.profiles)
    seeds = SEEDS if LONG else [early(name, ALL.index(name) % 20)]
    checks = MUTANTS[name].checks
    missed = [seed for seed in seeds if hunt(target, profiles, seed, BUDGET, checks).divergence is None]
    assert missed == []


@pytest.mark.parametrize("seeds", [range(first, first + 5) for first in SEEDS[::5]], ids=str)
@pytest.mark.parametrize("scope", SCOPES)
def test_the_clean_target_is_silent_from_every_seed(scope: str, seeds: range, hunt: Callable[..., Any]) -> None:
    """On the same seeds, and with the checks that are off by default: what finds a mutant finds nothing where there is
    none."""
    target = BuiltinEngine()
    for seed in seeds if LONG else seeds[:1]:
        outcome = hunt(target, SCOPES[scope].of(target.profiles), seed, CLEAN_BUDGET, CHECKS)
        assert outcome.divergence is None
        assert outcome.events >= CLEAN_BUDGET
