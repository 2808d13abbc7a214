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


def test_what_was_found_outlives_an_error_of_the_harness(hostile: Spoil) -> None:
    """Tapes of an engine that then asks for what is sealed away: the findings until then come back, with a note."""
    hostile(
        """
        def built(self, config):
            BuiltinTarget.built = getattr(BuiltinTarget, "built", 0) + 1
            if BuiltinTarget.built == 25:
                raise TargetError("stub used: sglang.srt.nothing")
            build(self, config)
        BuiltinTarget.build = built
        clear = BuiltinTarget.clear
        BuiltinTarget.clear = lambda self: (clear(self), self._allocator.full.take(1))[0]
        """
    )
    outcome = find(Origin("builtin", seed=0), Budget(tapes=500), 1)
    assert outcome.results.interrupted
    assert outcome.findings
    assert outcome.results.notes[0] == "stub used: sglang.srt.nothing; these are the results so far"
    assert any(note.startswith("tape ") for note in outcome.results.notes[1:])


def test_findings_are_handed_out_one_by_one() -> None:
    """Each as soon as it is shrunk, so that whatever ends the run later takes none of them away."""
    kept: list[object] = []
    outcome = find(Origin("builtin", seed=0, mutant="free-repeats-page"), Budget(tapes=60), 1, keep=kept.append)
    assert outcome.findings
    assert kept == outcome.findings
