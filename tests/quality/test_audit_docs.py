"""The published audit of a release: its record, what is said of each guard, and the table in the document are one."""

from __future__ import annotations

import json
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from staleloc.sim.audit.report.verdicts import reasons_for

DOCS = Path(__file__).parents[2] / "docs"
TARGET = "sglang==0.5.23"
STANDINGS = ("killed", "known", "not driven", "unnoticed", "untried")


@pytest.fixture(scope="module")
def guards() -> list[dict[str, Any]]:
    """What `staleloc audit --json` wrote."""
    told = json.loads((DOCS / "audits" / "sglang-0.5.23.json").read_text(encoding="utf-8"))
    assert told["target"] == TARGET
    return list(told["guards"])


def place(guard: dict[str, Any]) -> str:
    """As patterns for ``--guards`` have it."""
    return f"{guard['spot']['path']}:{guard['spot']['function']}"


def test_every_guard_that_nothing_missed_is_explained(guards: list[dict[str, Any]]) -> None:
    """By a sentence that the record was made with, and that is still on file."""
    reasons = reasons_for(TARGET)
    on_file = {it.why for it in (*reasons.guards.values(), *reasons.places.values())}
    for guard in guards:
        if guard["stands"] != "killed":
            assert guard["reason"] is not None, guard["name"]
            assert guard["reason"]["why"] in on_file, guard["name"]


def test_no_reason_is_of_a_guard_that_is_not_there(guards: list[dict[str, Any]]) -> None:
    """Nor of one that a tape misses, nor of a place that a tape comes to."""
    reasons = reasons_for(TARGET)
    stands = {guard["name"]: guard["stands"] for guard in guards}
    assert reasons.guards.keys() <= stands.keys()
    assert not [name for name in reasons.guards if stands[name] == "killed"]
    for pattern in reasons.places:
        there = [guard for guard in guards if fnmatchcase(place(guard), pattern)]
        assert there, pattern
        assert not [guard["name"] for guard in there if guard["outcome"] in ("killed", "survived")], pattern


def test_the_table_counts_what_the_record_has(guards: list[dict[str, Any]]) -> None:
    """One row a file, and one for all."""
    text = (DOCS / "AUDIT.md").read_text(encoding="utf-8")
    counts = Counter((guard["spot"]["path"].removeprefix("srt/mem_cache/"), guard["stands"]) for guard in guards)
    for path in sorted({path for path, _ in counts}):
        numbers = [counts[path, stands] for stands in STANDINGS]
        assert row(f"`{path}`", [sum(numbers), *numbers]) in text
    numbers = [sum(counts[path, stands] for path in {path for path, _ in counts}) for stands in STANDINGS]
    assert row("all", [sum(numbers), *numbers]) in text


def row(head: str, numbers: list[int]) -> str:
    """A row of the table."""
    return f"| {head} | {' | '.join(map(str, numbers))} |"
