"""Real releases that decode speculatively: their own allocation, release and eviction are driven, shipped bugs show."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
from plain_run import LATER, LONG
from recorded_mutants import RECORDED

from staleloc.sim.core.choices import seeded
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.run.campaign import Budget, Campaign
from staleloc.sim.run.player import Player
from staleloc.sim.tapes.scenarios import same_words, scenarios
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.sglang.fetch import Release

Probe = Callable[..., dict[str, Any]]

SPEC = Scope("engine", ("spec",))

V1 = ("0.5.11", "0.5.12", "0.5.12.post1")
"""Releases with a worker that takes a draft's slots and gives them back at once."""

NO_DFLASH = (*V1, "0.5.13")
"""Releases whose DFLASH is V1's."""

CLAIMS = (*V1, "0.5.13", "0.5.14")
"""Releases whose preparation counts the bonus as committed."""

IN_TOKENS = (*CLAIMS, "0.5.15")
"""Releases that record what was asked for where whole pages were allocated."""

CHANGED = ("0.5.12.post1", "0.5.13", "0.5.14", "0.5.15", "0.5.16")
"""The last release of V1, and releases with which something changes."""

VERSIONS = (*IN_TOKENS, "0.5.16", "0.5.18", "0.5.19", "0.5.23") if LONG else (*CHANGED, "0.5.23")


@pytest.mark.parametrize("version", VERSIONS)
def test_rules_are_read_off_each_release(probe: Probe, version: str) -> None:
    """What a release takes and how it counts changes in the releases that changed it."""
    assert probe("spec_probe.py", f"sglang=={version}") == {
        "versions": [*(["v1"] if version in V1 else []), "v2", *([] if version in NO_DFLASH else ["dflash"])],
        "chains": ["v2"] if version in V1 else [],
        "claims_bonus": version in CLAIMS,
        "whole_pages": version not in IN_TOKENS,
        "refused": version not in V1,
    }


SHIPPED: dict[str, tuple[int, int, dict[str, tuple[str, str]]]] = {
    "sglang==0.5.11": (0, 32, {"PR 24779, a key of pairs short of a page": ("crash", "crash")}),
    "sglang==0.5.12": (
        0,
        32,
        {
            "PR 27779, surplus on a page that is freed in part": ("wrong-mapping", "leftovers"),
            "PR 29352, recovery takes running slots": ("use-after-free", "owners"),
            "unsent: freed before the move": ("stale-translation", "rows"),
        },
    ),
    "sglang==0.5.13": (0, 96, {"PR 27779, surplus on a page that is freed in part": ("wrong-mapping", "leftovers")}),
    "sglang==0.5.17": (0, 16, {"PR 34924, a window that is never evicted": ("leak", "window")}),
    "sglang==0.5.22": (28, 32, {"unsent: window of a pair key": ("use-after-free", "owners")}),
}
"""Release -> seed, tapes, and incident -> class and check it shows as."""


@pytest.mark.parametrize(
    "target", [pytest.param(it, marks=[LATER] if it == "sglang==0.5.13" else []) for it in SHIPPED]
)
def test_shipped_bugs_of_speculative_decode_are_found_blind(target: str, available: Callable[[str], Release]) -> None:
    """A short campaign finds each known bug of the release."""
    available(target)
    seed, tapes, incidents = SHIPPED[target]
    found = Campaign(target, seed, Budget(tapes=tapes), workers=1, scope=SPEC).run().found
    shown = {(one.divergence.kind, one.divergence.check) for one in found}
    assert set(incidents.values()) <= shown


KNOWN: dict[str, tuple[str, ...]] = {
    "sglang==0.5.23": ("unsent-row-of-a-draft",),
}
"""Release -> scenarios of the bugs that it is known to have with these tapes."""


@pytest.mark.parametrize("target", list(KNOWN))
def test_releases_show_nothing_but_their_known_bugs(target: str, available: Callable[[str], Release]) -> None:
    """A campaign of 96 tapes finds nothing else; of 24 without STALELOC_LONG=1."""
    available(target)
    found = Campaign(target, 0, Budget(tapes=96 if LONG else 24), workers=1, scope=SPEC).run().found
    known = [it for it in scenarios() if it.name in KNOWN[target]]
    assert [one for one in found if not any(same_words(it, one.divergence) for it in known)] == []


def test_a_tree_of_the_oldest_release_is_moved_as_a_whole(available: Callable[[str], Release]) -> None:
    """Under V2, where nobody calls what moves it: handed all that was accepted, it leaves no row behind."""
    available("sglang==0.5.11")
    with Player("sglang==0.5.11") as player:
        tape = generate_tape(seeded(4, 0), SPEC.of(player.profiles))
        assert (tape.config.spec_version, tape.config.spec_topk > 1) == ("v2", True)
        assert player.play(tape) is None


NAMES = [
    name
    for name, mutant in MUTANTS.items()
    if (mutant.target, mutant.features) == ("sglang", ("spec",)) and name not in RECORDED
]

CRASH = {"sglang-spec-surplus-from-the-token", "sglang-spec-reserve-of-one-step"}
"""The release asserts against the first, and runs out of memory with the second, which may come before a check."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[LATER] if number % 2 else []) for number, name in enumerate(NAMES)]
)
def test_every_mutant_is_found(probe: Probe, name: str) -> None:
    """Within 32 tapes of seed 0, which show nothing without it; every other one without STALELOC_LONG=1."""
    answer = probe("mutant_probe.py", "sglang==0.5.23", "mutated", "32", name)
    assert answer["tape"] is not None
    assert answer["kind"] != "crash" or name in CRASH


@pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="needs triton: pip install 'staleloc[conformance]'"
)
@pytest.mark.parametrize(("version", "kernels"), [("0.5.12", 7), ("0.5.14", 6), ("0.5.23", 4)])
def test_replaced_kernels_agree_with_the_triton_kernels(probe: Probe, version: str, kernels: int) -> None:
    """All that a release has of them, on random batches."""
    answer = probe("spec_conformance.py", f"sglang=={version}", TRITON_INTERPRET="1")
    assert len(answer["kernels"]) == kernels
