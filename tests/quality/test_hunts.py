"""The document of the long hunts says what their logs say, and every finding in them is a known one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from staleloc.sim.tapes.scenarios import find_scenario

DOCS = Path(__file__).parents[2] / "docs"

LEVELS = {"allocator": "allocator", "engine": "engine", "disagg": "decode nodes", "spec": "speculative"}
"""Name of a log -> how the document calls what was fuzzed."""

TEXT = (DOCS / "HUNTS.md").read_text(encoding="utf-8")


def log(name: str) -> dict[str, Any]:
    """A campaign's summary."""
    told: dict[str, Any] = json.loads((DOCS / "hunts" / f"0.5.23-{name}.json").read_text(encoding="utf-8"))
    return told


@pytest.mark.parametrize("name", LEVELS)
def test_a_row_is_what_its_log_says(name: str) -> None:
    """Half an hour each, and nothing that the fuzzer can come to was left out."""
    it = log(name)
    (row,) = [line for line in TEXT.splitlines() if line.startswith(f"| {LEVELS[name]} |")]
    seen = [count for count in it["situations"].values() if count]
    cells = [
        f"{it['tapes']:,}",
        f"{it['events']:,}",
        f"{it['applied']:,}",
        f"{it['seconds']:,.0f}",
        f"{len(seen)} of {len(it['situations'])}",
    ]
    assert [cell.strip() for cell in row.split("|")[3:9]] == [*cells, str(len(it["divergences"]))]
    assert f"--target {it['target']} --seed {it['seed']} " in row
    assert it["seconds"] >= 1800


def test_every_finding_has_a_row_and_a_report() -> None:
    """By tape and class; the report is of a scenario that the release still has."""
    found = {(it["tape"]["provenance"]["tape"], it["class"]) for name in LEVELS for it in log(name)["divergences"]}
    rows = [line.split("|") for line in TEXT.splitlines() if "](reports/" in line and line.startswith("| ")]
    assert {(int(row[1]), row[2].strip()) for row in rows} == found
    for row in rows:
        scenario = find_scenario(row[4].partition("](reports/")[2].partition(".md")[0])
        assert "sglang==0.5.23" in scenario.diverges
