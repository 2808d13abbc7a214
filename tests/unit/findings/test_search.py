"""From a campaign to findings: one a bug, and what is said of one that does not show again."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from staleloc.sim.core.divergence import Divergence
from staleloc.sim.core.tape import Tape
from staleloc.sim.findings.finding import Finding, Origin
from staleloc.sim.findings.saves import Saves
from staleloc.sim.findings.search import find
from staleloc.sim.findings.text import render
from staleloc.sim.run.campaign import Budget
from staleloc.sim.run.player import Player
from staleloc.sim.run.progress import Progress
from staleloc.sim.tapes.codec import load
from staleloc.sim.targets.base import TargetError

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
    assert "Not reproducible: in a new process" in render(finding)


def test_a_finding_that_is_confirmed_is_not(hostile: Spoil) -> None:
    """Each process loses slots."""
    hostile(
        "clear = BuiltinTarget.clear; BuiltinTarget.clear = lambda self: (clear(self), self._allocator.full.take(1))[0]"
    )
    (finding,) = find(Origin("builtin", seed=0), Budget(first=True), 1).findings
    assert not finding.unsteady
    assert "Not reproducible" not in render(finding)


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


class Watched(Saves):
    """Notes each step with a finding."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.steps: list[tuple[str, int | None]] = []

    def see(self, finding: Finding) -> None:
        super().see(finding)
        self.steps.append(("seen", finding.origin.index))

    def keep(self, finding: Finding) -> Path | None:
        self.steps.append(("kept", finding.origin.index))
        return super().keep(finding)


def test_findings_are_on_disk_from_when_they_are_seen(tmp_path: Path) -> None:
    """Whatever ends the run later takes none of them away: unshrunk tapes first, and minimal ones in the end."""
    saves = Watched(tmp_path)
    outcome = find(Origin("builtin", seed=0, mutant="free-repeats-page"), Budget(tapes=60), 1, saves=saves)
    assert outcome.findings
    for finding in outcome.findings:
        index = finding.origin.index
        assert saves.steps.index(("seen", index)) < saves.steps.index(("kept", index))
    assert sorted(tmp_path.iterdir()) == sorted(path for path in outcome.saved if path is not None)
    assert len(outcome.saved) == len(outcome.findings)


def stop_shrinking(monkeypatch: pytest.MonkeyPatch, at: int, error: BaseException) -> None:
    """Raise this in place of the candidate's verdict with this number."""
    played = 0
    play = Player.play

    def stopping(self: Player, tape: Tape) -> Divergence | None:
        nonlocal played
        played += 1
        if played == at:
            raise error
        return play(self, tape)

    monkeypatch.setattr(Player, "play", stopping)


def test_ctrl_c_in_a_shrink_keeps_the_smallest_tape_so_far(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And what was not shrunk yet is kept as it was found."""
    stop_shrinking(monkeypatch, 30, KeyboardInterrupt())
    outcome = find(Origin("builtin", seed=2, mutant="free-repeats-page"), Budget(tapes=8), 1, saves=Saves(tmp_path))
    first, *others = outcome.findings
    assert first.shrunk is not None
    assert (first.shrunk.candidates, first.shrunk.minimal) == (30, False)
    assert 2 <= len(first.tape.events) < first.shrunk.before
    assert others
    assert all(it.shrunk is not None and len(it.tape.events) == it.shrunk.before for it in others)
    assert [load(path) for path in outcome.saved if path is not None] == [it.documented() for it in outcome.findings]
    assert outcome.results.notes == [
        f"interrupted; tape {first.origin.index} is not fully shrunk, and no later tape is shrunk"
    ]
    monkeypatch.undo()
    with Player("builtin", "free-repeats-page") as player:
        assert player.play(first.tape) == first.divergence


def test_an_error_of_the_harness_in_a_shrink_keeps_the_smallest_tape_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the note says which tape it is."""
    stop_shrinking(monkeypatch, 30, TargetError("out of memory?"))
    outcome = find(Origin("builtin", seed=2, mutant="free-repeats-page"), Budget(tapes=8), 1)
    shrunk = outcome.findings[0].shrunk
    assert shrunk is not None
    assert len(shrunk.tape.events) < shrunk.before
    assert not shrunk.minimal
    (note,) = outcome.results.notes
    assert re.fullmatch(r"tape \d+ is not fully shrunk: out of memory\?", note)


def test_a_shrink_shows_how_far_it_is() -> None:
    """By the number of candidates, from none on."""
    shown: list[str] = []

    class Shown(Progress):
        def _show(self, text: str) -> None:
            shown.append(text)

    find(Origin("builtin", seed=2, mutant="free-repeats-page"), Budget(first=True), 1, Shown())
    lines = [text for text in shown if text.startswith("shrinking")]
    assert lines[:3] == [f"shrinking divergence 1 of 1, {number} candidates tried" for number in (0, 20, 40)]
