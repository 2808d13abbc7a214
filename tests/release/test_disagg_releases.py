"""Real releases as decode nodes: their own queues are driven, each counts as its rules say, shipped bugs show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from plain_run import LONG

from staleloc.sim.run.campaign import Budget, Campaign
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.sglang.fetch import Release

Probe = Callable[..., dict[str, Any]]

DECODE = Scope("engine", ("disagg",))

TREE = ("0.5.19", "0.5.20", "0.5.21", "0.5.22", "0.5.23")
"""Releases whose server takes a prefix tree on a decode node of a sliding-window model (PR 27770)."""

DRAFTS = ("0.5.12", "0.5.12.post1", "0.5.13")
"""Releases with a drafting worker that puts the free lists back."""

SINCE = {
    "whole_pages": "0.5.18",
    "records_tail": "0.5.14",
    "swa_evictable": "0.5.19",
    "swa_refreshed": "0.5.19",
    "tail_after_prefix": "0.5.19",
    "sender_skips_cached": "0.5.18",
    "asks_whole": "0.5.22",
    "resumes_swa_anew": "0.5.19",
    "resumes_full_anew": "0.5.21",
}
"""Rule -> the first release that counts so."""

VERSIONS = ("0.5.12", "0.5.12.post1", "0.5.13", "0.5.14", "0.5.16", "0.5.17", "0.5.18", *TREE)


@pytest.mark.parametrize("version", VERSIONS)
def test_rules_are_read_off_each_release(probe: Probe, version: str) -> None:
    """They change in the releases that changed them, and the tail is the window's, in whole pages."""
    said = probe("disagg_probe.py", f"sglang=={version}", "rules")
    for rule, first in SINCE.items():
        assert said["plain"][rule] == (VERSIONS.index(version) >= VERSIONS.index(first)), rule
    assert said["plain"]["reserves_swa"] == (version in DRAFTS)
    assert said["plain"]["tail"] == [1, 8, 7, 9]
    assert ("tree" in said) == ("evict" in said["events"]) == (version in TREE)
    assert ("draft_slots" in said["missing"]) == (version not in DRAFTS)


@pytest.mark.parametrize("version", TREE)
def test_a_prefix_tree_makes_the_tail_wider(probe: Probe, version: str) -> None:
    """What is inserted ends on a page, and a whole window must be left before it."""
    said = probe("disagg_probe.py", f"sglang=={version}", "rules")
    assert said["tree"]["keeps"] == "UnifiedRadixCache"
    assert said["tree"]["wide_tail"]
    assert said["tree"]["reserves_swa"]
    assert said["tree"]["tail"] == [1, 8, 11, 9]


@pytest.mark.parametrize("version", ["0.5.12", "0.5.18", "0.5.23"])
def test_a_process_can_go_back_to_an_engine(probe: Probe, version: str) -> None:
    assert probe("disagg_probe.py", f"sglang=={version}", "after_an_engine") == {"queued": True, "prefilled": 2}


SHIPPED: dict[str, tuple[int, int, dict[str, tuple[str, str]]]] = {
    "sglang==0.5.12": (
        0,
        80,
        {
            "PR 25805, tail over recycled pages": ("alias", "owners"),
            "PR 28085, evicted length of a tail": ("wrong-mapping", "evicted"),
            "PR 33794, tail charged in tokens": ("over-admission", "over-admission"),
        },
    ),
    "sglang==0.5.17": (0, 48, {"PR 33794, tail charged in tokens": ("over-admission", "over-admission")}),
    "sglang==0.5.20": (
        0,
        96,
        {
            "PR 27770, lock beyond the prefix": ("starvation", "starvation"),
            "unsent page before the window": ("wrong-content", "rows"),
            "PR 29471, resumed request without a lock": ("crash", "crash"),
            "PR 40309, resume evicts no SWA": ("over-admission", "over-admission"),
        },
    ),
    "sglang==0.5.23": (0, 64, {"unsent page before the window": ("wrong-content", "rows")}),
}
"""Release -> seed, tapes, and incident -> class and check it shows as."""


@pytest.mark.parametrize("target", SHIPPED)
def test_shipped_bugs_of_decode_nodes_are_found_blind(target: str, available: Callable[[str], Release]) -> None:
    """A campaign over a decode node finds each known bug of the release's queues."""
    available(target)
    seed, tapes, incidents = SHIPPED[target]
    found = Campaign(target, seed, Budget(tapes=tapes), workers=1, scope=DECODE).run().found
    shown = {(one.divergence.kind, one.divergence.check) for one in found}
    assert set(incidents.values()) <= shown


def test_the_double_free_is_gone_with_its_fix(available: Callable[[str], Release]) -> None:
    """On 0.5.12.post1 the same tapes show no page with two owners, and none that is free and owned (PR 25805)."""
    available("sglang==0.5.12.post1")
    _, tapes, _ = SHIPPED["sglang==0.5.12"]
    budget = Budget(tapes=256 if LONG else tapes)
    found = Campaign("sglang==0.5.12.post1", 0, budget, workers=1, scope=DECODE).run().found
    assert {one.divergence.check for one in found} == {"evicted", "over-admission"}


def test_a_node_without_known_bugs_is_silent(available: Callable[[str], Release]) -> None:
    """0.5.18 keeps no tree on a decode node and counts whole pages: nothing is left to find."""
    available("sglang==0.5.18")
    budget = Budget(tapes=128 if LONG else 64)
    assert Campaign("sglang==0.5.18", 0, budget, workers=1, scope=DECODE).run().found == []
