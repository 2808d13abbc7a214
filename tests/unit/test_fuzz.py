"""From a campaign to findings: one a bug, and what is said of one that does not show again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from staleloc.sim.campaign import Budget
from staleloc.sim.finding import Origin
from staleloc.sim.fuzz import find
from staleloc.sim.report import render

Spoil = Callable[[str], Path]


def test_a_finding_that_another_process_does_not_confirm_is_said_to_be_unsteady(hostile: Spoil) -> None:
    """The campaign's process and the shrinker's lose slots, later ones do not."""
    hostile(
        """
        started = len(list(HERE.glob("process*")))
        (HERE / f"process{started}").touch()
        if started < 2:
            clear = BuiltinTarget.clear
            BuiltinTarget.clear = lambda self: (clear(self), self._allocator.full.take(1))[0]
        """
    )
    (finding,) = find(Origin("builtin", seed=0), Budget(first=True), 1).findings
    assert (finding.divergence.kind, finding.divergence.check) == ("leak", "conservation")
    assert finding.unsteady
    assert "Not steady: played again in a new process" in render(finding)


def test_a_finding_that_is_confirmed_is_not(hostile: Spoil) -> None:
    """Each process loses slots."""
    hostile(
        "clear = BuiltinTarget.clear; BuiltinTarget.clear = lambda self: (clear(self), self._allocator.full.take(1))[0]"
    )
    (finding,) = find(Origin("builtin", seed=0), Budget(first=True), 1).findings
    assert not finding.unsteady
    assert "Not steady" not in render(finding)
