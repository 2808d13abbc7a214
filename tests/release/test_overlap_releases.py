"""Real releases with two batches in flight: their own batches and their own processing of results are driven."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from plain_run import LATER, LONG

Probe = Callable[..., dict[str, Any]]

ALL = (
    *("0.5.11", "0.5.12", "0.5.12.post1", "0.5.13", "0.5.13.post1", "0.5.14", "0.5.15", "0.5.15.post1", "0.5.16"),
    *("0.5.17", "0.5.18", "0.5.19", "0.5.20", "0.5.21", "0.5.22", "0.5.23"),
)

VERSIONS = ALL if LONG else ("0.5.11", "0.5.21", "0.5.23")

KNOWN = {
    ("starvation", "starvation"),
    ("starvation", "starvation-between-chunks"),
    ("starvation", "starvation-without-cache"),
    ("starvation", "starvation-without-chunks"),
    ("over-admission", "over-admission"),
}
"""Class and check of the bugs of admission that docs/FINDINGS.md describes."""

REACHED = {
    *("merged_in_flight", "prefilled_in_flight", "stored_in_flight", "decoded_before_result", "filtered_in_flight"),
    *("aborted_in_flight", "stopped_in_flight", "result_dropped"),
}


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_live_and_end_in_flight(probe: Probe, version: str) -> None:
    """Nothing is left of them, and each release leaves those out of a decode step that it says it does."""
    said = probe("overlap_probe.py", f"sglang=={version}", "lives")
    skips = ALL.index(version) >= ALL.index("0.5.22")
    assert (said["found"], said["free"]) == (None, [0, 0])
    assert set(said["seen"]) >= REACHED
    assert (said["skips_finishing"], said["filters_always"]) == (skips, version == "0.5.23")
    assert ("left_out_finishing" in said["seen"], "filled_in_flight" in said["seen"]) == (skips, not skips)


MUTANTS_SHOWN = {
    "sglang-overlap-finished-is-processed-again": "crash",
    "sglang-overlap-filter-keeps-lengths": "held",
    "sglang-overlap-merge-swaps-lengths": "held",
    "sglang-overlap-lengths-in-place": "held",
    "sglang-overlap-retracted-takes-its-result": "crash",
}
"""Mutant -> the check that finds it; the release has an assertion of its own for what is released twice."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[LATER] if number % 2 else []) for number, name in enumerate(MUTANTS_SHOWN)]
)
def test_every_mutant_is_found(probe: Probe, name: str) -> None:
    """Blind, on the newest release."""
    said = probe("overlap_probe.py", "sglang==0.5.23", "mutated", name, "64")
    assert said["check"] == MUTANTS_SHOWN[name]


@pytest.mark.parametrize("version", ["0.5.21", "0.5.23"])
def test_a_campaign_finds_the_known_bugs_and_no_others(probe: Probe, version: str) -> None:
    """Those of admission, and up to 0.5.21 who is given up with its last token in flight."""
    tapes = 120 if LONG else 90 if version == "0.5.21" else 45
    said = probe("overlap_probe.py", f"sglang=={version}", "campaign", "11", str(tapes))
    found = {tuple(it) for it in said["found"]}
    assert found <= KNOWN | {("over-admission", "last-token")}
    assert (("over-admission", "last-token") in found) == (version == "0.5.21")
