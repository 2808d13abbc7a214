"""Features combined: what only a combination shows is found, and clean code is silent in each combination."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from early import early
from plain_run import LONG

from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.decode_node import COMBINED
from staleloc.sim.targets.mutants.transform import load_builtin

BUDGET = 50_000

CLEAN_BUDGET = 100_000 if LONG else 1_000

SEEDS = range(20)

COMBINATIONS = (
    *(("disagg", "spec"), ("disagg", "host"), ("disagg", "graphs"), ("spec", "graphs"), ("disagg", "spec", "host")),
    *(("disagg", "graphs", "host"), ("disagg", "spec", "graphs"), ("disagg", "spec", "graphs", "host")),
)


@pytest.mark.parametrize("name", [mutant.name for mutant in COMBINED])
def test_every_mutant_is_found_from_every_seed(name: str, hunt: Callable[..., Any]) -> None:
    """A seed that misses it would let a real bug of its kind through."""
    target = load_builtin(MUTANTS[name])
    profiles = MUTANTS[name].profiles(target.profiles)
    seeds = SEEDS if LONG else [early(name, 0)]
    assert [seed for seed in seeds if hunt(target, profiles, seed, BUDGET).divergence is None] == []


@pytest.mark.parametrize("features", COMBINATIONS, ids="+".join)
def test_the_clean_target_is_silent(features: tuple[str, ...], hunt: Callable[..., Any]) -> None:
    """In every combination that it has."""
    target = BuiltinEngine()
    outcome = hunt(target, Scope("engine", features, together=True).of(target.profiles), 0, CLEAN_BUDGET)
    assert outcome.divergence is None
    assert outcome.events >= CLEAN_BUDGET
