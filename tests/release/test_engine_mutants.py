"""Mutants of a real release at the engine level: each is found, and the release as it is stays silent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import warm
from recorded_mutants import RECORDED

from staleloc.sim.targets.mutants import MUTANTS

NEWEST = "sglang==0.5.23"

TAPES = 128

NAMES = [
    name
    for name, mutant in MUTANTS.items()
    if (mutant.target, mutant.level, mutant.features) == ("sglang", "engine", ()) and name not in RECORDED
]

CRASH = {"sglang-unlock-without-boundary"}
"""The release has an assertion of its own for it, which may come first."""


@pytest.mark.parametrize("name", NAMES)
def test_every_mutant_is_found(probe: Callable[..., dict[str, Any]], name: str) -> None:
    """Within `TAPES` tapes of seed 0, by a check and not because the release stumbles over it."""
    answer = probe("mutant_probe.py", NEWEST, "mutated", str(TAPES), name)
    assert answer["tape"] is not None
    assert answer["kind"] != "crash" or name in CRASH


def test_the_release_is_silent_on_tapes_that_show_mutants(probe: Callable[..., dict[str, Any]]) -> None:
    """Most mutants are found within these."""
    assert probe("mutant_probe.py", NEWEST, "clean", "16", "sglang-split-swaps-swa") == {"tape": None}


@pytest.mark.parametrize(
    ("version", "name", "why"),
    [
        ("0.5.18", "sglang-recovery-frees-locked-full", "names 0 definitions, not one"),
    ],
)
def test_a_mutant_that_a_release_has_no_code_for_is_one_clear_line(
    available: Callable[[str], Any], version: str, name: str, why: str
) -> None:
    """Exit 2, as for any target that cannot be loaded."""
    available(f"sglang=={version}")
    words = ("fuzz", "--target", f"sglang=={version}", "--mutant", name, "--tapes", "1", "--workers", "1")
    done = warm.run(["-m", "staleloc.sim", *words])
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"staleloc: mutant {name}: ")
    assert why in done.stderr
    assert done.stderr.count("\n") == 1
