"""What is known: the same divergence, entries of a file, the record of a release, and the sources of a commit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from checkout import Repository

from staleloc.sim.core.divergence import Divergence
from staleloc.sim.findings.finding import Finding, Origin
from staleloc.sim.gate import bases
from staleloc.sim.gate.accepted import Accepted, entry_of, merged, read, to_text, unreviewed
from staleloc.sim.gate.bases import Bases
from staleloc.sim.gate.blame import changed_lines
from staleloc.sim.gate.checkout import archived, commit_of, locate
from staleloc.sim.gate.clock import Clock
from staleloc.sim.gate.known import BaseTarget, Candidate, Record, same_divergence
from staleloc.sim.matrix.measurements import Replayed
from staleloc.sim.run.player import Player
from staleloc.sim.tapes.scenarios import scenarios
from staleloc.sim.targets.base import TargetError

ALL = {scenario.name: scenario for scenario in scenarios()}

NEW = "sglang==0.5.23"

FIXED, PRESENT = ALL["pr27779-partial-page-eviction"], ALL["pr36458-chunk-waits-for-its-window"]

LEAK = Divergence("leak", "conservation", 0, "slot 3 is lost")

CRASH = Divergence("crash", "crash", 0, "AssertionError: 3 slots")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (LEAK, replace(LEAK, what="slot 7 leaks"), True),
        (LEAK, replace(LEAK, check="release"), False),
        (LEAK, replace(LEAK, kind="alias"), False),
        (LEAK, replace(LEAK, event=2), False),
        (LEAK, replace(LEAK, during=("in_group",)), False),
        (CRASH, replace(CRASH, what="AssertionError: 5 slots"), True),
        (CRASH, replace(CRASH, what="TypeError: 3 slots"), False),
    ],
)
def test_a_divergence_is_the_same_by_class_check_event_and_situation(
    one: Divergence, other: Divergence, same: bool
) -> None:
    """Messages differ from tape to tape, and only of a crash they tell bugs apart."""
    assert same_divergence(one, other) == same


def test_an_entry_is_recognised_by_its_words_or_its_events() -> None:
    """And a scenario by its name alone; a crash never by events only."""
    tape = FIXED.tape
    entry = entry_of(Finding(Origin("builtin", tape="x"), tape, LEAK), None)
    shorter = replace(tape, events=tape.events[:1])
    assert entry.is_like(tape, replace(LEAK, what="another message"))
    assert entry.is_like(shorter, replace(LEAK, what="slot 9 is lost"))
    assert not entry.is_like(shorter, replace(LEAK, what="another message"))
    assert not entry.is_like(tape, LEAK, FIXED.name)
    crash = entry_of(Finding(Origin("builtin", tape="x"), tape, CRASH), None)
    assert not crash.is_like(tape, replace(CRASH, what="TypeError"))
    named = entry_of(Finding(Origin("builtin", tape="x"), tape, LEAK), FIXED.name)
    assert named.is_like(shorter, LEAK, FIXED.name)
    assert not named.is_like(tape, LEAK)


def test_a_file_of_entries_keeps_its_reasons(tmp_path: Path) -> None:
    """What is written is read again; merging adds what is like no entry, without a reason."""
    finding = Finding(Origin("builtin", tape="x"), FIXED.tape, LEAK)
    first = [replace(it, reason="because") for it in merged([], [(finding, None)])]
    both = merged(first, [(finding, None), (finding, FIXED.name)])
    assert [(it.reason, it.scenario) for it in both] == [("because", None), ("", FIXED.name)]
    file = tmp_path / "accepted.json"
    file.write_text(to_text(both), encoding="utf-8")
    assert read(file, reviewed=False) == both
    assert unreviewed(both) == both[1:]
    assert Accepted("f", first).knows(Candidate(FIXED.tape, LEAK)) == "accepted: because"
    assert Accepted("f", first).knows(Candidate(FIXED.tape, LEAK, FIXED)) is None


def test_the_record_knows_what_the_release_has_and_not_what_it_has_lost() -> None:
    """A random finding is known by the scenario that it looks like, if the target shows that one."""
    shows = Replayed("diverges", "it")
    record = Record(NEW, {PRESENT.name: shows, FIXED.name: shows}, scenarios())
    starved = Divergence(PRESENT.kind, "starvation", len(PRESENT.tape.events) - 1, PRESENT.shows[0])
    stale = Divergence(FIXED.kind, "mapping", len(FIXED.tape.events) - 1, "it")
    assert record.knows(Candidate(PRESENT.tape, starved, PRESENT)) == f"on record for {NEW}"
    assert record.knows(Candidate(FIXED.tape, stale, FIXED)) is None
    assert record.knows(Candidate(PRESENT.tape, starved)) == f"looks like {PRESENT.name}; on record for {NEW}"
    assert record.knows(Candidate(FIXED.tape, stale)) is None
    assert Record(NEW, {}, scenarios()).knows(Candidate(PRESENT.tape, starved)) is None


def test_a_checkout_is_found_by_its_folder(repository: Repository) -> None:
    """With its path from the repository's root; a target's name is itself, and lies in no repository."""
    subject = locate("python/cache")
    assert (subject.target, subject.prefix, subject.git) == ("builtin@python/cache", "python/cache/", True)
    assert locate("builtin").prefix == ""
    with pytest.raises(TargetError, match="lies in no git repository"):
        commit_of(locate("builtin"), "HEAD")


def test_without_a_base_a_checkout_is_compared_with_the_release_that_it_is(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or with its record, with a warning, where the release cannot be had; a target with itself never."""
    usual, warning = Bases(locate("python/cache"), tmp_path, Player).usual({})
    assert (usual.name, type(usual), warning) == ("builtin", BaseTarget, None)
    assert type(Bases(locate("builtin"), tmp_path, Player).usual({})[0]) is Record

    def offline(target: str) -> None:
        if target == "builtin":
            raise TargetError("no network")

    monkeypatch.setattr(bases, "release_of", offline)
    usual, warning = Bases(locate("python/cache"), tmp_path, Player).usual({})
    assert (usual.name, type(usual)) == ("builtin", Record)
    assert warning == "compared with the public record of builtin only, not with the release: no network"


def test_sources_of_a_commit_are_read_beside_the_work_tree(repository: Repository, tmp_path: Path) -> None:
    """Lines that were removed are marked around the gap; built modules are taken along."""
    line = repository.spoil() - 1
    (repository.package / "core.so").write_bytes(b"built")
    (repository.package / "new.py").write_text("a = 1\nb = 2\n", encoding="utf-8")
    subject = locate("python/cache")
    base = archived(subject, commit_of(subject, "HEAD"), tmp_path / "base")
    assert (tmp_path / "base" / "cache" / "core.so").read_bytes() == b"built"
    assert changed_lines(subject.target, base) == {"swa.py": {line, line + 1}, "new.py": {1, 2}}
    assert changed_lines(base, base) == {}


def test_without_a_limit_nothing_depends_on_the_clock() -> None:
    """And with one, shares end before the time that is kept for the reports."""
    free, limited = Clock(None), Clock(100.0)
    assert (free.share(3), free.deadline(3), free.is_over, free.is_late) == (None, None, False, False)
    share = limited.share(2)
    assert share is not None
    assert 40 < share < 47
    assert Clock(1e-9).is_late
