"""Real releases as schedulers: their own admission, chunks and retraction are driven, and shipped bugs show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from plain_run import LONG

Probe = Callable[..., dict[str, Any]]

ALL = (
    *("0.5.11", "0.5.12", "0.5.12.post1", "0.5.13", "0.5.13.post1", "0.5.14", "0.5.15", "0.5.15.post1", "0.5.16"),
    *("0.5.17", "0.5.18", "0.5.19", "0.5.20", "0.5.21", "0.5.22", "0.5.23"),
)

VERSIONS = ALL if LONG else ("0.5.11", "0.5.12", "0.5.13", "0.5.14", "0.5.21", "0.5.22", "0.5.23")

KNOWN = {
    ("starvation", "starvation"),
    ("starvation", "starvation-between-chunks"),
    ("starvation", "starvation-without-cache"),
    ("starvation", "starvation-without-chunks"),
    ("over-admission", "over-admission"),
}
"""Class and check of the bugs of 0.5.22 and 0.5.23 that docs/FINDINGS.md describes."""


@pytest.mark.parametrize("version", VERSIONS)
def test_rules_are_read_off_each_release(probe: Probe, version: str) -> None:
    """They change in the releases that changed them."""
    said = probe("scheduler_probe.py", f"sglang=={version}", "rules")
    place = ALL.index(version)
    assert said["aborts"] == (place >= ALL.index("0.5.14"))
    assert said["stores_again"] == (version == "0.5.11")
    plain = "UnifiedRadixCache" if place >= ALL.index("0.5.22") else "SWAChunkCache"
    assert said["caches"] == [plain, "UnifiedRadixCache"]
    assert (["swa-radix"] in said["policies"]) == (place <= ALL.index("0.5.20"))


@pytest.mark.parametrize("version", ["0.5.12", "0.5.23"])
def test_one_process_drives_schedulers_and_engines_in_turn(probe: Probe, version: str) -> None:
    """Neither leaves a setting behind for the other."""
    said = probe("scheduler_probe.py", f"sglang=={version}", "after_one_another")
    assert said["counts"] == [[8], [2], [8], [2]]


@pytest.mark.parametrize("version", ["0.5.22", "0.5.23"])
def test_a_campaign_finds_the_known_bugs_and_no_others(probe: Probe, version: str) -> None:
    """Blind: the tapes of one seed show a chunk that waits for its window, and a prefix that locks its own."""
    said = probe("scheduler_probe.py", f"sglang=={version}", "campaign", "1", "48")
    found = {tuple(it) for it in said["found"]}
    assert found <= KNOWN
    assert {("starvation", "starvation"), ("starvation", "starvation-without-cache")} <= found
    assert {"chunk_continued", "chunk_cut_short", "prefix_hit", "granted_after_refusal"} <= set(said["seen"])
