"""Scripts of findings on a decode node: they run without the project and show what was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from staleloc.models.config import Config
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.findings.finding import Finding, Origin
from staleloc.sim.findings.script.script import script
from staleloc.sim.parts.decode_node.events import Enqueue, Preallocate, Resume, Retract, Start, Transfer
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine.events import Decode
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin

CONFIG = Config(level="engine", features=("disagg",), policy="memo", page_size=4, full_size=32, swa_size=16, window=4)
PLACED = (Enqueue(0, (1,) * 10, 8), Preallocate())
RESUMED = (*PLACED, Transfer(0, 96, 1), Start(), Decode((0,), 1), Retract(0), Resume())

CASES: dict[str, tuple[str, tuple[Event, ...]]] = {
    "disagg-resume-loads-nothing-in-swa": ("after step 7, resume():\n  expected  Masks: ", RESUMED),
    "disagg-admission-ignores-output": ("after step 2, preallocate():\n  expected  Over-admission: ", (
        Enqueue(0, (1,) * 10, 60), Preallocate())),
    "disagg-sender-told-full-pages": ("after step 2, preallocate():\n  expected  Transfer: ", PLACED),
}  # fmt: skip
"""Mutant -> how its script's answer begins, and events that show it."""

Run = Callable[[str], tuple[int, str, str]]


def finding(mutant: str) -> Finding:
    tape = Tape(CONFIG, CASES[mutant][1])
    divergence = drive_engine(tape, load_builtin(MUTANTS[mutant])).divergence  # type: ignore[arg-type]
    assert divergence is not None
    scope = Scope("engine", ("disagg",))
    return Finding(Origin("builtin", mutant=mutant, seed=0, index=0, scope=scope), tape, divergence)


@pytest.mark.parametrize("mutant", CASES)
def test_the_bug_shows_in_a_mutant(mutant: str, run: Run) -> None:
    """The check that saw it sees it again, at the same step."""
    found = finding(mutant)
    code, out, err = run(script(found))
    assert (code, err) == (1, "")
    assert out.startswith(CASES[mutant][0])
    assert out.endswith(f"the bug shows: {found.divergence.kind}\n")


def test_no_bug_shows_in_the_clean_target(run: Run) -> None:
    """The same steps with the source as it is."""
    found = finding("disagg-resume-loads-nothing-in-swa")
    clean = replace(found, origin=replace(found.origin, mutant=None))
    assert run(script(clean)) == (0, "the bug does not show\n", "")
