"""Reports hold any text that an engine may write, and say what was not tested."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from junitparser import JUnitXml

from staleloc.sim.core.divergence import Divergence
from staleloc.sim.findings.finding import Finding, Origin
from staleloc.sim.gate import formats, report
from staleloc.sim.gate.checkout import Subject
from staleloc.sim.gate.outcome import KEPT, SCENARIOS, Case, GateResult, Place, Played
from staleloc.sim.tapes.scenarios import scenarios
from staleloc.sim.targets.base import Scope

TAPE = scenarios()[0].tape

NASTY = "</failure>&\x00\x1b[31m | `x` \U0001f600 %0A::error::\n"


@pytest.fixture
def result() -> GateResult:
    """A crash whose message tries to break out, a known finding, and a warning."""
    crash = Divergence("crash", "crash", len(TAPE.events) - 1, f"RuntimeError: {NASTY}")
    new = Finding(Origin("sglang@.", seed=0, index=3), TAPE, crash)
    old = replace(new, divergence=Divergence("leak", "conservation", 0, "slot 1 is lost"))
    place = Place("srt/a b.py", 7, "changed, and run by the diverging tape")
    cases = [
        Case(SCENARIOS, "one", "silent"),
        Case(SCENARIOS, "two", "unplayable", "no such event"),
        Case(KEPT, "kept/x.json", "known", "HEAD diverges in the same way", old),
        Case("the allocator level", "seed 0, tape 3", "new", "", new, saved="t.json", places=(place,)),
    ]
    subject = Subject("sglang@.", Path(), "python/sglang/", True)
    played = [Played(Scope(), 40, 900, 2), Played(Scope("engine"), 0, 0, 0)]
    return GateResult(subject, None, 0, ["HEAD (123)"], cases, played, warnings=["the engine level was not tested"])


def test_junit_is_well_formed_whatever_the_engine_says(result: GateResult) -> None:
    """One failure, with its place and its report; known and unplayable cases are skipped."""
    xml = JUnitXml.fromstring(formats.to_junit(result).encode())
    suites = {suite.name: suite for suite in xml}
    assert {name: (it.tests, it.failures, it.skipped) for name, it in suites.items()} == {
        "scenarios": (2, 0, 1),
        "kept tapes": (1, 0, 1),
        "the allocator level": (2, 1, 0),
        "the engine level": (1, 0, 0),
    }
    (failure,) = [it for case in suites["the allocator level"] for it in case.result]
    assert "look at python/sglang/srt/a b.py:7" in failure.text


def test_an_annotation_is_one_line_that_only_we_began(result: GateResult) -> None:
    """What looks like a command or a line end inside a message is escaped; a place is escaped as a property."""
    error, warning = formats.to_annotations(result)
    assert error.startswith(
        "::error file=python/sglang/srt/a b.py,line=7,title=staleloc: crash::new crash: RuntimeError:"
    )
    assert "\n" not in error
    assert "%250A::error" in error
    assert warning == "::warning title=staleloc: warning::the engine level was not tested"


def test_sarif_has_a_rule_and_a_place_in_the_repository(result: GateResult) -> None:
    """Only what fails is a result."""
    (run,) = formats.to_sarif(result)["runs"]
    (only,) = run["results"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["crash"] == [only["ruleId"]]
    location = only["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "python/sglang/srt/a%20b.py"
    assert location["region"] == {"startLine": 7}


def test_json_is_valid_and_the_summary_keeps_its_table(result: GateResult) -> None:
    """A message cannot end a cell, a row or a tag."""
    jsonschema.validate(report.to_json(result), report.gate_schema())
    text = report.to_markdown(result)
    (row,) = [line for line in text.splitlines() if line.startswith("| **new**")]
    assert row.replace("\\|", "").count("|") == 5
    assert "</failure>" not in row
    assert "- the engine level was not tested" in text
    assert "| the engine level | 0 tapes, 0 events |" in text


def test_the_text_says_what_is_new_before_anything_else(result: GateResult) -> None:
    """Then what it was compared with, and what is known."""
    lines = report.to_text(result).splitlines()
    assert lines[0] == "NEW: the allocator level, seed 0, tape 3"
    assert lines[1] == "  look at python/sglang/srt/a b.py:7 (changed, and run by the diverging tape)"
    assert "sglang@.: 1 new finding, 1 known" in lines
    assert any(line.split() == ["compared", "with", "HEAD", "(123)"] for line in lines)
    result.cases.pop()
    assert report.headline(replace(result, interrupted=True)) == "sglang@.: 0 new findings, 1 known, interrupted"
