"""Real releases as decode nodes whose requests speculate: slots, contents and free counts, driven by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Probe = Callable[..., dict[str, Any]]

LIFE = {
    "allocated": 16,
    "drafted": True,
    "read": [True, True, True],
    "retractable": 9,
    "saved": 12,
    "resumed": [0],
    "committed": 15,
    "left": True,
    "aborts": [True] * 5,
}
"""Ten tokens come, two are accepted, the copy holds twelve, three are accepted after the resume."""

RELEASES: dict[str, dict[str, Any]] = {
    "0.5.14": {
        "versions": ["v2"],
        "tree": False,
        "excluded": ["disagg dflash", "disagg host", "disagg tree", "disagg tree spec"],
        "alone": {**LIFE, "gone": True},
    },
    "0.5.19": {
        "versions": ["v2", "dflash"],
        "tree": False,
        "excluded": ["disagg host", "disagg tree host", "disagg tree spec"],
        "alone": {**LIFE, "gone": True},
    },
    "0.5.23": {
        "versions": ["v2", "dflash"],
        "tree": True,
        "excluded": ["disagg host", "disagg tree dflash", "disagg tree host"],
        "alone": {**LIFE, "gone": True},
        "with tree": {**LIFE, "gone": False},
    },
}
"""A retraction leaves nothing in the pools but what the tree has of the prompt."""


@pytest.mark.parametrize("version", RELEASES)
def test_a_decode_node_speculates(probe: Probe, version: str) -> None:
    """The sender's KV and the draft's are there, a retraction copies what is committed, an abort leaves nothing."""
    assert probe("spec_node_probe.py", f"sglang=={version}") == RELEASES[version]
