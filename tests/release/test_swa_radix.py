"""The legacy SWA tree of real releases: a policy of its own beside the unified tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from plain_run import LATER

from staleloc.sim.core.choices import seeded
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.run.player import Player
from staleloc.sim.tapes.reshape import repair
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.sglang.fetch import Release

Probe = Callable[..., dict[str, Any]]

FAULTY = ("0.5.11", "0.5.14")
"""Recovering a tombstone frees full slots that another running request still reads (PR 29352)."""

CLEAN = ("0.5.15", "0.5.16", "0.5.19", "0.5.20")
"""From the release with the fix to the last that has this tree."""

ENDS = (CLEAN[0], CLEAN[-1])


@pytest.mark.parametrize("version", ENDS)
def test_random_play_is_silent(probe: Probe, version: str) -> None:
    """By a second opinion, and by the tree's own check whenever nothing runs."""
    answer = probe("engine_probe.py", f"sglang=={version}", "plays", "swa-radix", "", "0", "4", "150")
    assert answer["failures"] == []
    assert answer["seen"]["hit"] > 0
    assert answer["seen"]["tombstones"] > 0


@pytest.mark.parametrize("version", FAULTY)
def test_random_play_finds_what_recovery_took_from_a_running_request(probe: Probe, version: str) -> None:
    """And nothing else."""
    answer = probe("engine_probe.py", f"sglang=={version}", "plays", "swa-radix", "", "0", "6", "200")
    assert answer["failures"]
    assert all(failure["what"].startswith("row and tree differ") for failure in answer["failures"])


def fuzzed(target: str) -> list[Divergence]:
    """What 60 random tapes for the legacy tree alone show."""
    with Player(target) as player:
        (profile,) = (it for it in player.profiles if (it.policies, it.features) == (("swa-radix",), ()))
        tapes = (generate_tape(seeded(0, index), [profile]) for index in range(60))
        verdicts = [player.play(replace(it, events=repair(it.config, it.events, profile))) for it in tapes]
    return [verdict for verdict in verdicts if verdict is not None]


@pytest.mark.parametrize("version", FAULTY)
def test_the_bug_is_found_blind(available: Callable[[str], Release], version: str) -> None:
    """By the package's own tapes and checks, and nothing else is."""
    available(f"sglang=={version}")
    found = fuzzed(f"sglang=={version}")
    assert found
    assert {(it.kind, it.check) for it in found} == {("use-after-free", "owners")}
    assert all("still uses full page" in it.what for it in found)


@pytest.mark.parametrize("version", [pytest.param(it, marks=[] if it in ENDS else [LATER]) for it in CLEAN])
def test_fixed_releases_are_silent(available: Callable[[str], Release], version: str) -> None:
    """On the same tapes."""
    available(f"sglang=={version}")
    assert fuzzed(f"sglang=={version}") == []


@pytest.mark.parametrize("version", ["0.5.12", "0.5.20"])
def test_a_campaign_draws_both_trees(available: Callable[[str], Release], version: str) -> None:
    """A quarter of the tapes are for the legacy tree, none of them with a host tier."""
    available(f"sglang=={version}")
    with Player(f"sglang=={version}") as player:
        profiles = Scope("engine").of(player.profiles)
    configs = [generate_tape(seeded(0, index), profiles).config for index in range(60)]
    legacy = [config for config in configs if config.policy == "swa-radix"]
    assert 8 <= len(legacy) <= 22
    assert {config.host_full_size for config in legacy} == {0}
    assert any(config.host_full_size for config in configs)


@pytest.mark.parametrize("version", ["0.5.11", "0.5.20"])
def test_nodes_are_seen_as_they_are(probe: Probe, version: str) -> None:
    """A tombstone has no SWA locs; any other node has those that its full locs map to."""
    answer = probe("tree_probe.py", f"sglang=={version}", "play")
    assert answer["divergences"] == [None, None]
    (first, second), mapped = answer["nodes"], answer["mapped"]
    assert first == [[1, 1, 1, 1], [4, 5, 6, 7], None, 1]
    assert second == [[2, 2, 2, 2], [8, 9, 10, 11], mapped[1], 1]
    assert mapped[0] == [0, 0, 0, 0]
    assert 0 not in mapped[1]


@pytest.mark.parametrize("version", ["0.5.12", "0.5.20"])
def test_nodes_have_the_same_names_however_much_was_played_before(probe: Probe, version: str) -> None:
    """On every tree, so that a divergence is told in the same words each time."""
    told = probe("tree_probe.py", f"sglang=={version}", "names")
    assert len(told) > 1
    assert all(first and first == second for first, second in told.values())


def test_an_insert_that_forgets_how_far_the_window_was_evicted_would_be_found(probe: Probe) -> None:
    """PRs 30845 and 36909: no scheduler step evicts before it inserts a chunk, so this is done by hand here."""
    forgets = probe("tree_probe.py", "sglang==0.5.18", "evict_first")
    assert forgets["divergences"][0][:2] == ["out-of-bounds", "owners"]
    assert forgets["nodes"][0][2][:8] == [0] * 8
    knows = probe("tree_probe.py", "sglang==0.5.19", "evict_first")
    assert knows["divergences"] == [None, None]
    assert [swa is None for _, _, swa, _ in knows["nodes"]] == [True, False]


@pytest.mark.parametrize(
    ("defect", "kind", "check", "what"),
    [
        ("node stays live", "out-of-bounds", "owners", " has SWA page 0; its pages are 1 to 8"),
        ("lock ends early", "use-after-free", "locks", " is locked 0 times and 1 running requests need it"),
    ],
)
def test_a_broken_tree_is_found(probe: Probe, defect: str, kind: str, check: str, what: str) -> None:
    """SWA slots given up without a tombstone, and a lock that does not last; a second time in the same words."""
    found, again = probe("tree_probe.py", "sglang==0.5.16", "play", defect)["divergences"]
    assert found == again
    assert found[:2] == [kind, check]
    assert found[3].endswith(what)
