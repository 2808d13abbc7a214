"""The tables in the documentation are what was measured, of all scenarios; and what was measured is what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from staleloc.sim.core.divergence import Divergence
from staleloc.sim.matrix import file, pages
from staleloc.sim.matrix.measure import looks_like
from staleloc.sim.matrix.measurements import Matrix, Replayed
from staleloc.sim.matrix.record import alarms, hunted, places, scope_of
from staleloc.sim.tapes.scenarios import Scenario, scenarios

ROOT = Path(__file__).parents[2]

AGAIN = (
    "python -m staleloc.sim matrix --json docs/matrix.json --markdown docs/MATRIX.md --blind none "
    "(and without --blind none to fuzz what is new)"
)


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return file.load(ROOT / "docs" / "matrix.json")


def test_the_page_shows_the_file(matrix: Matrix) -> None:
    """Byte for byte."""
    page = (ROOT / "docs" / "MATRIX.md").read_text(encoding="utf-8")
    assert page == pages.to_markdown(matrix, scenarios()), AGAIN


def test_every_scenario_was_played_on_every_release(matrix: Matrix) -> None:
    """No row and no cell is missing, and no scenario that is gone is left."""
    names = {scenario.name for scenario in scenarios()}
    assert {target: set(replays) for target, replays in matrix.replays.items()} == dict.fromkeys(
        matrix.releases, names
    ), AGAIN
    assert matrix.absent == {}


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario.name)
def test_a_row_is_what_its_scenario_says(scenario: Scenario, matrix: Matrix) -> None:
    """Where the scenario says that it diverges or is silent, the table says so."""
    seen = {target: replays[scenario.name].verdict for target, replays in matrix.replays.items()}
    assert {seen[target] for target in scenario.diverges if target in seen} == {"diverges"}
    assert {seen[target] for target in scenario.silent if target in seen} <= {"silent"}


def test_nothing_in_the_table_is_new(matrix: Matrix) -> None:
    """No release diverges that should be fixed, unless the findings say so."""
    assert alarms(matrix, scenarios()) == []


def as_hunted(known: list[Scenario], replays: Mapping[str, Replayed]) -> list[Scenario]:
    """Those that diverge on a release first."""
    return sorted(known, key=lambda scenario: replays[scenario.name].verdict != "diverges")


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario.name)
def test_a_hunt_knows_a_scenario_by_what_its_tape_shows(scenario: Scenario, matrix: Matrix) -> None:
    """On every release on which it diverges: one that words it otherwise would look as if nobody found it."""
    known = [it for it in scenarios() if scope_of(it.tape) == scope_of(scenario.tape)]
    longer = replace(scenario.tape, events=scenario.tape.events * 2)
    tape = longer if scenario.tape.config.level == "engine" else scenario.tape
    for target, replays in matrix.replays.items():
        seen = replays[scenario.name]
        if seen.verdict == "diverges":
            kind, _, what = seen.what.partition(": ")
            found = looks_like(tape, Divergence(kind, "any", 0, what), as_hunted(known, replays))
            assert found == scenario, f"{target}: enter its words under shows"


def test_where_no_tape_diverges_every_release_was_fuzzed(matrix: Matrix) -> None:
    """To the end of the budget."""
    for target, scope in places(matrix, scenarios()):
        hunt = hunted(matrix, target, scope)
        assert hunt is not None, f"{target}, {scope}: {AGAIN}"
        assert hunt.note is None
        assert hunt.seconds >= (matrix.budget.seconds or 0)
