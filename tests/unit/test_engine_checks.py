"""Every oracle of the engine level, fired by a mutant on a short tape, and quiet on it without the mutant.

A tape of `tapes/` says in its provenance which mutant it shows, and as what. Each is what a campaign found,
shrunk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from staleloc.sim.engine.checks import ENGINE_CHECKS
from staleloc.sim.engine.drive import drive_engine
from staleloc.sim.legality import find_violation
from staleloc.sim.mutants import MUTANTS
from staleloc.sim.mutate import load_builtin
from staleloc.sim.tape import Tape, load
from staleloc.sim.targets.builtin import BuiltinEngine

TAPES: dict[str, Tape] = {path.stem: load(path) for path in sorted((Path(__file__).parent / "tapes").glob("*.json"))}

RULES = {
    "structure": {"misaligned"},
    "admission": {"out-of-bounds", "misaligned"},
    "owners": {"out-of-bounds", "alias", "double-free", "use-after-free", "race", "leak"},
    "races": {"race"},
    "values": {"stale-translation", "wrong-mapping"},
    "graphs": {"graph-pollution", "stale-translation", "wrong-content"},
    "rows": {"wrong-content", "stale-translation"},
    "locks": {"use-after-free", "leak"},
    "refusal": {"leak"},
    "eviction": {"leak"},
}
"""Check -> the classes that it reports."""

BY_HAND = {("admission", "misaligned")}
"""What no mutant's tape shows; `test_engine_states` does."""


def provenance(tape: Tape) -> dict[str, Any]:
    assert tape.provenance is not None
    return dict(tape.provenance)


@pytest.mark.parametrize("name", TAPES)
def test_a_mutant_fires_the_check(name: str) -> None:
    """With the class that tells what is wrong, and at the tape's last event."""
    tape = TAPES[name]
    wanted = provenance(tape)
    divergence = drive_engine(tape, load_builtin(MUTANTS[wanted["mutant"]])).divergence
    assert divergence is not None
    assert (divergence.kind, divergence.check, divergence.what) == (wanted["class"], wanted["check"], wanted["what"])
    assert divergence.event == len(tape.events) - 1


@pytest.mark.parametrize("name", TAPES)
def test_correct_code_keeps_it_quiet(name: str) -> None:
    """On the same tape, which is a legal one."""
    target = BuiltinEngine()
    assert find_violation(TAPES[name], target.profiles)[1] is None
    verdict = drive_engine(TAPES[name], target)
    assert verdict.divergence is None
    assert verdict.events == len(TAPES[name].events)


def test_every_class_of_every_check_is_shown() -> None:
    """A check or a class without a tape would be one that nobody has seen fire."""
    shown: dict[str, set[str]] = {}
    for tape in TAPES.values():
        shown.setdefault(provenance(tape)["check"], set()).add(provenance(tape)["class"])
    for check, kind in BY_HAND:
        assert kind not in shown[check]
        shown[check].add(kind)
    assert shown == RULES
    assert set(RULES) == {check.name for check in ENGINE_CHECKS}
