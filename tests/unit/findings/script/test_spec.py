"""Scripts of findings of speculative decode: they run without the project and show what was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from staleloc.models.config import Config
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.findings.finding import Finding, Origin
from staleloc.sim.findings.script.script import script
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine.events import Admit, Arrive, Checkpoint, Finish, Prefill
from staleloc.sim.parts.speculative.events import Commit, DraftTree, PrepareDecode, TargetVerify
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin

CONFIG = Config(
    level="engine", features=("spec",), policy="memo", page_size=4, full_size=96, swa_size=96, window=4, spec_steps=2,
    spec_topk=2, spec_draft_tokens=4,
)  # fmt: skip
STEP: tuple[Event, ...] = (
    Arrive(0, (1, 2, 1)), Admit(0), Prefill(0, 3), Checkpoint(0),
    PrepareDecode((0,)), DraftTree((0,), (1, 2, 1, 2), (0, 0, 1)), TargetVerify((0,), (2,)), Commit((0,)),
)  # fmt: skip

CASES: dict[str, tuple[str, tuple[Event, ...]]] = {
    "spec-accepted-not-moved": ("after step 7, target_verify(requests=(0,), accepted=(2,)):\n  expected  Rows", STEP),
    "spec-last-page-not-copied": ("after step 6, draft_tree(", STEP),
    "spec-bonus-counted-twice": ("after step 8, commit(requests=(0,)):\n  expected  Lengths: ", STEP),
    "spec-surplus-kept-at-finish": ("after step 9, finish(request=0):\n  expected  Owners: ", (*STEP, Finish(0))),
}
"""Mutant -> how its script's answer begins, and events that show it."""

Run = Callable[[str], tuple[int, str, str]]


def finding(mutant: str) -> Finding:
    tape = Tape(CONFIG, CASES[mutant][1])
    divergence = drive_engine(tape, load_builtin(MUTANTS[mutant])).divergence  # type: ignore[arg-type]
    assert divergence is not None
    scope = Scope("engine", ("spec",))
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
    found = finding("spec-accepted-not-moved")
    clean = replace(found, origin=replace(found.origin, mutant=None))
    assert run(script(clean)) == (0, "the bug does not show\n", "")
