"""What a campaign draws from: levels and features, as the command line says them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from staleloc.models.config import Config, ConfigError
from staleloc.sim.core.tape import Tape
from staleloc.sim.run.messages import profile_from_json, profile_to_json
from staleloc.sim.tapes.codec import dumps, loads
from staleloc.sim.targets.base import Profile, Scope, TargetError
from staleloc.sim.targets.registry import scope_of


def profile(level: str, *features: str) -> Profile:
    return Profile("hybrid", ("native",), (1,), ("float32",), frozenset(), level=level, features=features)


ALL = [
    profile("allocator"),
    profile("engine"),
    profile("engine", "spec"),
    profile("engine", "graphs"),
    profile("engine", "spec", "graphs"),
]


def test_without_features_only_plain_profiles_are_drawn() -> None:
    """A campaign that asks for no features draws the same tapes whatever features a target has."""
    assert Scope().of(ALL) == ALL[:1]
    assert Scope("engine").of(ALL) == ALL[1:2]


def test_features_are_drawn_alone_and_together() -> None:
    """Of the features asked for, each tape has at least one, and no other."""
    assert Scope("engine", ("spec",)).of(ALL) == ALL[2:3]
    assert Scope("engine", ("spec", "graphs")).of(ALL) == ALL[2:]
    assert Scope("engine", ("disagg",)).of(ALL) == []


def test_a_feature_that_a_target_lacks_is_told() -> None:
    """Also beside others that it has: nothing asked for is left out in silence."""
    assert Scope("engine", ("spec", "graphs")).lacking(ALL) is None
    assert Scope("engine", ("disagg", "spec")).lacking(ALL) == Scope("engine", ("disagg",))
    assert Scope("engine").lacking(ALL[:1]) == Scope("engine")


def test_features_imply_the_engine_level() -> None:
    """--features alone is enough, in any order; with the other level they are an error of one line."""
    assert scope_of(None, None, ("graphs", "spec")) == Scope("engine", ("spec", "graphs"))
    assert scope_of(None, None) == Scope()
    with pytest.raises(TargetError, match=r"^--features go with --level engine; leave out --level allocator$"):
        scope_of(None, "allocator", ("spec",))


def test_a_mutant_brings_its_scope() -> None:
    """A mutant without features cannot be looked for with some."""
    assert scope_of("backup-of-one-side", None) == Scope("engine")
    with pytest.raises(TargetError, match=r"shows without features; leave out --features spec$"):
        scope_of("backup-of-one-side", None, ("spec",))


def test_the_words_of_a_scope_are_the_command_lines() -> None:
    """What `again` prints gives the same scope."""
    assert Scope().options == []
    assert Scope("engine", ("spec", "graphs")).options == ["--level", "engine", "--features", "spec,graphs"]
    assert str(Scope("engine", ("spec", "graphs"))) == "the engine level with spec or graphs"


def test_a_tape_keeps_its_features() -> None:
    """Features travel in the tape and in a profile; a tape without them has no word of them."""
    tape = Tape(Config(level="engine", features=("spec", "graphs")), ())
    assert loads(dumps(tape)) == tape
    assert "features" not in dumps(Tape(Config(level="engine"), ()))
    excluding = replace(ALL[-1], spec_treeless=("dflash",), excluded={("disagg", "tree"): "refused"})
    for profile in (ALL[-1], excluding):
        assert profile_from_json(json.loads(json.dumps(profile_to_json(profile)))) == profile


@pytest.mark.parametrize("features", [("graphs", "spec"), ("spec", "spec"), ("magic",)])
def test_features_have_an_order(features: tuple[str, ...]) -> None:
    """Two configs that mean the same are equal: one order, no name twice, no unknown name."""
    with pytest.raises(ConfigError, match=r"^features must be some of disagg, spec, graphs"):
        Config(level="engine", features=features).check()


def test_features_are_not_of_the_allocator_level() -> None:
    """A tape of single calls has none."""
    with pytest.raises(ConfigError, match=r"^features are of the engine level$"):
        Config(features=("spec",)).check()


def test_checks_imply_the_engine_level_and_come_with_a_mutant() -> None:
    """They are said on the command line that shows a finding again, and handed to workers."""
    scope = scope_of(None, None, checks=("hits",))
    assert scope == Scope("engine", checks=("hits",)) == Scope.from_json(scope.to_json())
    assert scope.options == ["--level", "engine", "--checks", "hits"]
    assert scope_of("evict-takes-twice", None).checks == ("hits",)
    assert scope_of("backup-of-one-side", None, checks=("hits",)).checks == ("hits",)
    for mutant, level in ((None, "allocator"), ("alloc-hands-out-padding", None)):
        with pytest.raises(TargetError, match="--checks"):
            scope_of(mutant, level, checks=("hits",))
