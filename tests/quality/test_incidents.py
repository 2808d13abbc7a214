"""The list of public incidents is whole: each has a tape, or a reason, and everything that is cited is in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from staleloc.sim.tapes.scenarios import Scenario, scenarios
from staleloc.sim.targets.mutants import MUTANTS

DOCS = Path(__file__).parents[2] / "docs"

NAMES = {scenario.name for scenario in scenarios()}


def table(text: str, columns: int) -> list[list[str]]:
    """The cells of a Markdown table's rows, headings left out; numbers come first in each."""
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.splitlines()]
    return [row for row in cells if len(row) == columns and re.match(r"\d{5}", row[0])]


def numbers(text: str) -> list[str]:
    return re.findall(r"\b\d{5}\b", text)


TEXT = (DOCS / "INCIDENTS.md").read_text(encoding="utf-8")

ROWS = table(TEXT, 3)

BELOW = TEXT.rpartition("|\n")[2]


@pytest.fixture(scope="module")
def listed() -> dict[str, str]:
    """Number -> where it is."""
    return {number: where for numbered, _, where in ROWS for number in numbers(numbered)}


def test_every_incident_has_a_tape_or_a_reason() -> None:
    """A name in it is that of a scenario or of a mutant; without a scenario, words say why."""
    assert len(ROWS) >= 40
    for numbered, family, where in ROWS:
        assert family, numbered
        named = re.findall(r"`([a-z0-9-]+)`", where)
        assert set(named) <= NAMES | MUTANTS.keys(), numbered
        assert NAMES & set(named) or len(re.sub(r"`[a-z0-9-]+`", "", where).split()) >= 3, numbered


def test_no_number_is_there_twice_and_all_are_in_order() -> None:
    """By the first number of a row."""
    flat = [number for numbered, *_ in ROWS for number in numbers(numbered)]
    assert len(flat) == len(set(flat))
    firsts = [int(numbers(numbered)[0]) for numbered, *_ in ROWS]
    assert firsts == sorted(firsts)


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario.name)
def test_a_scenario_is_where_its_incident_is(scenario: Scenario, listed: dict[str, str]) -> None:
    """Every number it gives is listed, and one of them with its name; what has no number is named below the table."""
    given = numbers(scenario.incident)
    assert set(given) <= listed.keys()
    assert any(f"`{scenario.name}`" in where for where in [*map(listed.get, given), *([BELOW] if not given else [])])


def test_whatever_a_mutant_or_the_findings_cite_is_listed(listed: dict[str, str]) -> None:
    """A bug that was thought of once is not forgotten."""
    cited = {number for mutant in MUTANTS.values() for number in numbers(mutant.story)}
    findings = (DOCS / "FINDINGS.md").read_text(encoding="utf-8")
    _, _, rest = findings.partition("**Not reached**")
    cited |= {number for row in table(rest.partition("\n## ")[0], 2) for number in numbers(row[0])}
    assert len(cited) > 30
    assert cited <= listed.keys(), cited - listed.keys()
