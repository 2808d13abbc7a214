"""The check of hits on the correct embedded target: what a write-back may leave without a copy."""

from __future__ import annotations

import pytest

from staleloc.models.config import Config
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine import events as ee
from staleloc.sim.parts.scheduler import events as se
from staleloc.sim.targets.registry import open_target, parse

WRITE_BACK = {"level": "engine", "policy": "memo", "write_policy": "write_back", "checks": ("hits",)}

INNER = (
    *(ee.Arrive(0, (2, 2)), ee.Arrive(1, (2, 2)), ee.Arrive(2, (1, 1)), ee.Admit(1), ee.Prefill(1, 2)),
    *(ee.Checkpoint(1), ee.Admit(0), ee.Admit(2), ee.Abort(0), ee.Finish(1), ee.Prefill(2, 2)),
)
"""The last prefill evicts a node, whose window goes first, and the one below it, which makes it a leaf."""

SPLIT = (
    *(se.Submit(0, (5, 5, 5, 5, 2, 2, 2, 2, 5, 5, 5, 5, 5), 1), se.PrefillRound(), se.DecodeRound(1)),
    *(se.Submit(0, (5, 5, 5, 5, 1, 1, 1, 1, 4), 1), se.PrefillRound()),
)
"""The last round splits a node at the shared page, which stays, and evicts the rest."""


@pytest.mark.parametrize(
    ("config", "events"),
    [
        (Config(page_size=1, full_size=2, swa_size=2, layers=("swa",), window=4, host_full_size=4, host_swa_size=4,
                **WRITE_BACK), INNER),  # type: ignore[arg-type]
        (Config(page_size=4, full_size=16, swa_size=16, layers=("swa",), window=2, host_full_size=40, host_swa_size=40,
                features=("scheduler",), chunk=32, max_prefill=80, **WRITE_BACK), SPLIT),  # type: ignore[arg-type]
    ],
    ids=["inner node", "split node"],
)  # fmt: skip
def test_what_stays_or_was_no_leaf_needs_no_copy(config: Config, events: tuple[Event, ...]) -> None:
    """Neither the window of an inner node, nor the front of a node of which only the rest is evicted."""
    target = open_target(parse("builtin"))
    assert drive_engine(Tape(config, events), target).divergence is None
