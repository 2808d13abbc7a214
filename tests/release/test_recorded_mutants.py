"""Mutants of a real release's allocators, tree, host tier, admission and batches: each is found from every seed.

The plain run plays one recorded tape for each in one process; STALELOC_LONG=1 hunts each from five seeds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from plain_run import LATER
from recorded_mutants import RECORDED

Probe = Callable[..., dict[str, Any]]

NEWEST = "sglang==0.5.23"

TAPES = 600
"""Tapes of a seed; when this was written, none needed more than 60 s of processor time for them."""


def test_recorded_tapes_show_mutants(probe: Probe) -> None:
    """The recorded tape of each fires its check, and without the mutant none."""
    tapes = {name: (seed, index) for name, (seed, index, _) in RECORDED.items()}
    shown = probe("recorded_probe.py", NEWEST, "recorded", json.dumps(tapes))
    assert shown == {name: [None, check] for name, (_, _, check) in RECORDED.items()}


@pytest.mark.parametrize("name", [pytest.param(name, marks=LATER) for name in RECORDED])
def test_every_mutant_is_found_from_every_seed(probe: Probe, name: str) -> None:
    """By a tape on which the release as it is stays silent."""
    found = probe("recorded_probe.py", NEWEST, "hunted", name, str(TAPES))
    assert None not in found.values()
