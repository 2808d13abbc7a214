"""What tapes of disaggregated decode reach."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from staleloc.models.situations import DISAGG_SITUATIONS, RESULT_SITUATIONS
from staleloc.sim.core.choices import seeded
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.parts.situations import possible
from staleloc.sim.targets.builtin import BuiltinEngine

PROFILE = next(profile for profile in BuiltinEngine.profiles if profile.features == ("disagg",))

ALL = [*RESULT_SITUATIONS, *DISAGG_SITUATIONS]

RARE = {
    "outgrown",
    "clipped",
    "fitted_with_prefix",
    "hole_outside_window",
    "resume_put_off",
    "aborted_retracted",
    "aborted_prebuilt",
    "recovered_in_group",
}


def test_a_campaign_reaches_every_situation_but_the_rarest() -> None:
    """Within a few hundred tapes, and until then it counts no others."""
    counted: Counter[str] = Counter()
    for index in range(120):
        counted.update(drive_engine(generate_tape(seeded(3, index), [PROFILE]), BuiltinEngine()).seen)
        if set(ALL) - RARE <= set(counted):
            break
    assert set(counted) | RARE == set(ALL)


def test_the_same_seed_gives_the_same_tape() -> None:
    """Nothing else is drawn from."""
    tapes = [[generate_tape(seeded(5, index), [PROFILE]) for index in range(20)] for _ in range(2)]
    assert tapes[0] == tapes[1]
    assert len(set(tapes[0])) == 20


def test_what_a_node_without_tree_and_single_slots_can_reach() -> None:
    """No prefix is ever cached there, and every pool takes a tail."""
    bare = replace(PROFILE, decode_tree=False, page_sizes=(4,))
    assert set(ALL) - set(possible([bare])) == {
        "prefix_fallback",
        "fitted_with_prefix",
        "evicted_to_admit",
        "whole_preallocated",
        "recovered_in_group",
        "evicted_in_group",
    }
    assert possible([PROFILE]) == ALL


def test_what_a_target_says_it_never_comes_to_is_not_waited_for() -> None:
    """Unless it can also be driven in a way that does come to it."""
    bare = replace(PROFILE, unreachable={"prefix_fallback": "no tail behind a prefix"})
    assert set(ALL) - set(possible([bare])) == {"prefix_fallback"}
    assert possible([bare, PROFILE]) == ALL
