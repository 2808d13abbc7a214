"""The release matrix: what a cell says, what differs from the record, and which scenario a find looks like."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from staleloc.sim.core.divergence import Divergence
from staleloc.sim.matrix import file, pages
from staleloc.sim.matrix.measure import looks_like
from staleloc.sim.matrix.measurements import Hunt, HuntBudget, HuntKey, Matrix, Other, Replayed, Sighting
from staleloc.sim.matrix.record import alarms, claim, counterpart_of, disagreement, order, places, scope_of, seen_there
from staleloc.sim.matrix.tables import Cell, cell_of, quiet_rows, quiet_total, short
from staleloc.sim.tapes.scenarios import Said, Scenario, scenarios
from staleloc.sim.targets.base import Scope

ROOT = Path(__file__).parents[3]

ALL = {scenario.name: scenario for scenario in scenarios()}

PARTIAL = ALL["pr27779-partial-page-eviction"]

OLD, NEW = "sglang==0.5.13", "sglang==0.5.14"


def matrix_of(replays: dict[str, dict[str, Replayed]], hunts: dict[HuntKey, Hunt] | None = None) -> Matrix:
    return Matrix((0, 1, 2), HuntBudget(tapes=9), 2, "0.1.0", list(replays), replays, hunts or {})


def found(tape: int | None, seconds: float = 0.0, name: str = PARTIAL.name) -> Hunt:
    seen = {} if tape is None else {name: Sighting(tape, seconds)}
    return Hunt((PARTIAL.name,), "0", 9, 1.0, seen)


@pytest.mark.parametrize(
    ("since", "fixed", "told"),
    [
        ("0.5.12", "0.5.14", ["before", "has", "has", "fixed"]),
        (None, "0.5.12.post1", [None, None, "fixed", "fixed"]),
        ("0.5.12", None, ["before", "has", "has", "has"]),
        (None, None, [None] * 4),
    ],
)
def test_a_release_is_said_to_have_a_bug_between_two_releases(since: Any, fixed: Any, told: list[str | None]) -> None:
    """A post release comes after its release; of what is no release nothing is said."""
    said = Said(since, fixed)
    targets = [f"sglang=={version}" for version in ("0.5.11", "0.5.12", "0.5.12.post1", "0.5.14")]
    assert [claim(said, target) for target in targets] == told
    assert claim(said, "sglang@.") is None
    assert claim(None, OLD) is None


def test_releases_are_in_the_order_of_their_numbers() -> None:
    """And whatever has none comes last."""
    targets = ["sglang@x", "sglang==0.5.9", "sglang==0.5.12.post1", "sglang==0.5.12", "sglang==0.5.10"]
    assert sorted(targets, key=order) == [targets[1], targets[4], targets[3], targets[2], targets[0]]


@pytest.mark.parametrize(
    ("verdict", "target", "says", "alarm"),
    [
        ("diverges", "sglang==0.5.13", None, False),
        ("silent", "sglang==0.5.14", None, False),
        ("unplayable", "sglang==0.5.13", None, False),
        ("other", "sglang==0.5.14", "diverges with another class (race: x), although it was silent before", True),
        ("other", "sglang==0.5.16", None, False),
        ("diverges", "sglang==0.5.14", "diverges, although the record says that it is fixed since 0.5.14", True),
        ("diverges", "sglang==0.5.15", "diverges, although the record says that it is fixed since 0.5.14", False),
        (
            "diverges",
            "sglang==0.5.11",
            "diverges, although the record says that it has the bug only since 0.5.12",
            False,
        ),
        ("silent", "sglang==0.5.12", "is silent, although the record says that it has the bug", False),
        ("silent", "sglang==0.5.13", "is silent, although it diverged before: because", False),
        (
            "other",
            "sglang==0.5.12",
            "diverges with another class (race: x), although the record says that it has the bug",
            False,
        ),
    ],
)
def test_what_is_seen_and_what_is_said_are_compared(verdict: str, target: str, says: str | None, alarm: bool) -> None:
    """Only a divergence that nobody knows, on a release that should be fixed, is an alarm."""
    known = replace(
        PARTIAL,
        diverges=("sglang==0.5.13", "sglang==0.5.15"),
        silent=("sglang==0.5.14",),
        said=Said("0.5.12", "0.5.14"),
        remark={"0.5.13": "because"},
    )
    differs = disagreement(known, target, Replayed(verdict, "race: x"))
    assert (None if differs is None else differs.text) == says
    assert (differs is not None and differs.alarm) == alarm


def test_a_scenario_without_a_record_alarms_where_it_was_silent() -> None:
    """Its own list is all that is known of it."""
    known = replace(PARTIAL, said=None, diverges=(), silent=(NEW,))
    differs = disagreement(known, NEW, Replayed("diverges"))
    assert differs is not None
    assert (differs.text, differs.alarm) == ("diverges, although it was silent before", True)
    assert disagreement(known, OLD, Replayed("diverges")) is None


def test_a_find_where_no_tape_diverges_is_an_alarm(small: Matrix) -> None:
    """Whether it looks like something or not; where one does, finds of any look are expected."""
    other = Other("leak", "conservation", "page # is lost", 5)
    assert alarms(small, [PARTIAL]) == []
    small.hunts[HuntKey(OLD, Scope(), 3)] = replace(found(2), others=(other,))
    assert alarms(small, [PARTIAL]) == []
    small.hunts[HuntKey(NEW, Scope(), 0)] = replace(found(2), wanted=(), others=(other,))
    assert alarms(small, [PARTIAL]) == [
        f"{NEW}, the allocator level, seed 0, tape 2: looks like {PARTIAL.name}",
        f"{NEW}, the allocator level, seed 0, tape 5: leak: page # is lost",
    ]


def test_a_find_where_another_level_is_known_to_diverge_is_not_new(small: Matrix) -> None:
    """As a decode node and a speculating one have the same tree."""
    known = ALL["pr36848-ack-takes-another-lock"]
    spec = Scope("engine", ("spec",))
    small.hunts[HuntKey(OLD, spec, 0)] = replace(found(2, name=known.name), wanted=())
    for verdict, new, told in (("diverges", 0, "known: "), ("silent", 1, "NEW: looks like ")):
        small.replays[OLD][known.name] = Replayed(verdict)
        assert len(alarms(small, [PARTIAL])) == new
        assert seen_there(small, OLD, spec) == f"9 tapes, {told}{known.name}"
    quiet = ALL["pr34924-window-never-evicted"]
    small.replays[OLD] |= {known.name: Replayed("diverges"), quiet.name: Replayed("silent")}
    [total] = quiet_total(small, [quiet])
    assert total.endswith(
        ": 9 tapes, nothing new; 1 of the hunts found a bug that is known at another level of the release."
    )


def quiet_of(hunt: Hunt | None, known: Scenario = PARTIAL) -> str:
    """What a table says of a hunt on a release where a scenario of its scope is silent."""
    key = HuntKey(NEW, scope_of(known.tape), 0)
    matrix = matrix_of({NEW: {known.name: Replayed("silent")}}, {} if hunt is None else {key: hunt})
    return quiet_rows(matrix, [known])[1][1]


def test_what_is_found_where_no_tape_diverges_is_shown() -> None:
    """Silence with the number of tapes, what was found if it was not silent, and whether it ended early."""
    silent = replace(found(None), wanted=(), tapes=1234)
    other = Other("leak", "conservation", "page # is lost", 5)
    assert quiet_of(None) == "?"
    assert quiet_of(silent) == "1,234 tapes, silent"
    assert quiet_of(replace(silent, note="it hung")) == "1,234 tapes, silent; ended early: it hung"
    assert quiet_of(replace(silent, others=(other,))) == "1,234 tapes, NEW: leak: page # is lost"
    assert quiet_of(replace(found(2), wanted=())) == f"9 tapes, NEW: looks like {PARTIAL.name}"
    assert quiet_of(found(None)) == "?", "a hunt for something that does not diverge any more is none"


def test_where_no_tape_diverges_there_is_a_table(small: Matrix) -> None:
    """One row a release, one column a level; and a line that has the sum. A level that diverges has no cell, nor one
    of which no tape can be played."""
    engine = ALL["pr36848-ack-takes-another-lock"]
    both = [PARTIAL, engine]
    small.replays[OLD][engine.name] = Replayed("unplayable", "no tree")
    small.replays[NEW][engine.name] = Replayed("silent")
    head = ("release", "allocator level", "engine level")
    assert quiet_rows(small, both) == [head, ("0.5.14", "?", "?")]
    assert quiet_total(small, both) == []
    for scope in (Scope(), Scope("engine")):
        small.hunts[HuntKey(NEW, scope, 0)] = replace(found(None), wanted=())
    assert quiet_rows(small, both) == [head, ("0.5.14", "9 tapes, silent", "9 tapes, silent")]
    total = "Fuzzed blind where no tape diverges (2 hunts of one seed and 9 tapes each): 18 tapes, silent."
    assert quiet_total(small, both) == [total]
    assert pages.readme(small, both) == f"{pages.compact(small, both)}\n{total}\n"
    for page in (pages.to_markdown(small, both), pages.to_html(small, both)):
        assert page.count("9 tapes, silent") == 2
    assert total in pages.to_text(small, both)
    small.hunts[HuntKey(NEW, Scope(), 0)] = replace(found(2), wanted=())
    assert quiet_total(small, both) == [total.replace("silent", "1 new")]
    small.replays[NEW][PARTIAL.name] = Replayed("diverges")
    assert quiet_rows(small, both) == [head, ("0.5.14", "", "9 tapes, silent")]
    del small.replays[NEW]
    assert quiet_rows(small, both) == []
    assert "\nNothing.\n" in pages.to_markdown(small, both)


def test_a_scope_is_quiet_only_if_none_of_its_features_shows_a_bug(small: Matrix) -> None:
    """A campaign of two features draws tapes with one of them as well, and would find what these show."""
    alone, both = ALL["pr36458-chunk-waits-for-its-window"], ALL["unsent-last-token-in-flight"]
    assert set(alone.tape.config.features) < set(both.tape.config.features)
    small.replays[NEW] |= {alone.name: Replayed("silent"), both.name: Replayed("silent")}
    assert (NEW, scope_of(both.tape)) in places(small, [alone, both])
    small.replays[NEW][alone.name] = Replayed("diverges")
    assert (NEW, scope_of(both.tape)) not in places(small, [alone, both])


@pytest.mark.parametrize(
    ("tapes", "expected"),
    [
        ((8, 0, 3), (3, 3, 3, "2 s", "3")),
        ((8, None, 3), (3, 2, 8, "4 s 2/3", "8 2/3")),
        ((None, None, 3), (3, 1, None, "x 1/3", "x 1/3")),
        ((None, None, None), (3, 0, None, "x", "x")),
    ],
)
def test_a_cell_has_the_median_of_the_seeds(tapes: tuple[int | None, ...], expected: tuple[Any, ...]) -> None:
    """A seed that never finds it counts as later than any, and that there is one is said. Tapes keep their numbers."""
    hunts = {HuntKey(OLD, Scope(), seed): found(tape, (tape or 0) / 2) for seed, tape in enumerate(tapes)}
    matrix = matrix_of({OLD: {PARTIAL.name: Replayed("diverges")}}, hunts)
    cell = cell_of(matrix, PARTIAL, OLD)
    assert cell.blind is not None
    blind = cell.blind
    assert (blind.hunts, blind.hits, blind.tape, short(cell), short(cell, tapes=True)) == expected


def test_a_cell_is_not_judged_by_some_of_its_seeds(small: Matrix) -> None:
    """A median of those that happen to be done would move."""
    assert short(cell_of(small, PARTIAL, OLD)) == "2 s"
    small.hunts.popitem()
    assert short(cell_of(small, PARTIAL, OLD)) == "x?"


@pytest.mark.parametrize(
    ("verdict", "expected"), [("diverges", "x?"), ("other", "o"), ("silent", "."), ("unplayable", "")]
)
def test_a_cell_without_hunts_says_what_the_tape_does(verdict: str, expected: str) -> None:
    """A mark is added where the record says otherwise, and a question where nothing was measured."""
    cell = Cell(Replayed(verdict), None, None)
    assert short(cell) == expected
    assert short(Cell(None, None, None)) == "?"
    differs = disagreement(PARTIAL, NEW, Replayed("diverges"))
    assert short(replace(cell, differs=differs)) == f"{expected}*"


def says(kind: str, what: str, check: str = "rows") -> Divergence:
    return Divergence(kind, check, 0, what)


def test_whole_requests_are_told_by_words_and_by_whether_pages_are_tokens() -> None:
    """However many numbers a list has, and however it is cut."""
    page, rows = ALL["unsent-page-before-the-window"], ALL["unsent-rows-before-the-window"]
    what = (
        "slot 4 of layer 1, token 4 of node 20, holds nothing, expected the KV of token 3 after [... 1, 2] at layer 0"
    )
    for scenario in (page, rows):
        longer = replace(scenario.tape, events=scenario.tape.events * 2)
        assert looks_like(longer, says("wrong-content", what), [page, rows]) == scenario
        assert looks_like(longer, says("wrong-content", "something else"), [page, rows]) is None


def test_the_legacy_tree_is_told_from_the_others() -> None:
    """Both say the same of the same bug, and are other code."""
    legacy, unified = ALL["pr29352-recovery-under-lock"], ALL["pr29352-recovery-takes-running-slots"]
    what = "request 3 still uses full page 1, which the tree freed"
    for scenario in (legacy, unified):
        longer = replace(scenario.tape, events=scenario.tape.events * 2)
        assert looks_like(longer, says("use-after-free", what), [legacy, unified]) == scenario


def test_a_bug_is_known_by_its_other_classes_too() -> None:
    """With the same kinds of events: PR 36739 may show as a double free."""
    known = ALL["pr36739-second-group-end"]
    assert looks_like(known.tape, says("double-free", "x"), [PARTIAL, known]) == known
    assert looks_like(known.tape, says("leak", "x"), [PARTIAL, known]) is None


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario.name)
def test_a_scenario_is_found_in_a_campaign_of_its_scope(scenario: Scenario) -> None:
    """Its tape is told from all others of the scope by what it shows; two that show the same differ otherwise."""
    known = [it for it in scenarios() if scope_of(it.tape) == scope_of(scenario.tape)]
    for words in scenario.shows or [""]:
        assert looks_like(scenario.tape, says(scenario.kind, words), known) == scenario


def test_a_checkout_is_judged_as_a_release() -> None:
    """By its version, or by the scenarios that it shows, whichever fix it lost; a release is judged as itself."""
    verdicts = file.load(ROOT / "docs" / "matrix.json").replays["sglang==0.5.23"]
    lost = {**verdicts, PARTIAL.name: Replayed("diverges", "wrong-mapping: it")}
    known = tuple(ALL.values())
    assert counterpart_of("sglang@.", "0.5.15.post2", {}, known) == "sglang==0.5.15.post1"
    assert counterpart_of("sglang@.", None, verdicts, known) == "sglang==0.5.23"
    assert counterpart_of("sglang@.", "0.0.0.dev0", lost, known) == "sglang==0.5.23"
    assert counterpart_of(OLD, "0.5.13", lost, known) == OLD


def test_a_fixed_incident_that_comes_back_on_a_checkout_is_an_alarm(tmp_path: Path) -> None:
    """In the file of the matrix, too; the same result without the release that it is judged as says nothing."""
    matrix = matrix_of({"sglang@.": {PARTIAL.name: Replayed("diverges", "wrong-mapping: it")}})
    assert alarms(matrix, [PARTIAL]) == []
    matrix.judged["sglang@."] = "sglang==0.5.23"
    file.save(matrix, tmp_path / "matrix.json")
    again = file.load(tmp_path / "matrix.json")
    (line,) = alarms(again, [PARTIAL])
    assert line.startswith(f"{PARTIAL.name} on sglang@.: diverges, although the record says that it is fixed")
    assert "sglang@. is judged as sglang==0.5.23" in pages.to_text(again, [PARTIAL])
    again.judged["sglang@."] = OLD
    assert alarms(again, [PARTIAL]) == []
