"""Which of a target's profiles a cache belongs to, and what is changed to make it fit."""

from __future__ import annotations

from dataclasses import replace

from staleloc.models.config import Config
from staleloc.sim.parts.legality import fitted, lacking, profile_of
from staleloc.sim.targets.base import Profile

TREE = Profile(
    pool="hybrid", level="engine", policies=("native",), page_sizes=(1,), dtypes=("float32",), events=frozenset()
)
OTHER_TREE = replace(TREE, policies=("swa-radix",))
ALLOCATOR = replace(TREE, level="allocator")
ALL = (ALLOCATOR, TREE, OTHER_TREE)


def test_two_trees_over_one_pool_are_told_apart_by_policy() -> None:
    """Each tape goes to the tree it was made for."""
    for profile in ALL:
        assert profile_of(Config(level=profile.level, policy=profile.policies[0]), ALL) is profile


def test_a_policy_that_the_target_lacks_is_played_as_its_first() -> None:
    """Level and pool must be there."""
    foreign = Config(level="engine", policy="uncached")
    assert profile_of(foreign, ALL) is TREE
    assert fitted(foreign, TREE) == (replace(foreign, policy="native"), ["policy uncached is played as native"])
    assert profile_of(replace(foreign, pool="dsv4"), ALL) is None


def test_what_is_for_another_tree_is_not_played_on_this_one() -> None:
    """Silence there would say nothing: the code that the tape is about would not have run."""
    legacy = Config(level="engine", policy="swa-radix")
    assert profile_of(legacy, (ALLOCATOR, TREE)) is None
    assert lacking(legacy, (ALLOCATOR, TREE), "sglang==0.5.23") == (
        "it is for SGLang's legacy tree SWARadixCache (policy swa-radix), which sglang==0.5.23 does not have; play it "
        "on a release that has it (up to 0.5.20), or give the tape another policy"
    )
    assert lacking(legacy, ALL, "sglang==0.5.20") is None
    assert lacking(replace(legacy, policy="uncached"), ALL, "sglang==0.5.20") is None
