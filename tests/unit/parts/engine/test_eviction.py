"""A tree that keeps what it could give up is told from one that has nothing left to give."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staleloc.models.config import Config
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine.events import Admit, Arrive, Checkpoint, Evict, Finish, Prefill
from staleloc.sim.targets.builtin import BuiltinEngine

CONFIG = Config(level="engine", policy="memo", page_size=2, full_size=16, swa_size=16, window=2)
SERVED = (Arrive(0, (1, 1, 1, 1, 2)), Admit(0), Prefill(0, 5), Checkpoint(0))


class Hoarder(BuiltinEngine):
    """Gives up nothing."""

    def evict(self, full: int, swa: int) -> None:
        """Keep everything."""


def test_a_node_that_nobody_uses_and_stays_is_a_leak() -> None:
    """The request is gone, so both pools could get their tokens back."""
    verdict = drive_engine(Tape(CONFIG, (*SERVED, Finish(0), Evict(2, 2))), Hoarder())
    assert verdict.divergence is not None
    assert (verdict.divergence.kind, verdict.divergence.check) == ("leak", "eviction")
    assert "evicted 2 full tokens too few" in verdict.divergence.what


def test_what_a_running_request_uses_may_stay() -> None:
    """The same eviction while the request runs."""
    assert drive_engine(Tape(CONFIG, (*SERVED, Evict(2, 2))), Hoarder()).divergence is None


def test_a_tree_that_gives_all_it_has_is_right() -> None:
    """More is asked than there is."""
    assert drive_engine(Tape(CONFIG, (*SERVED, Finish(0), Evict(16, 16))), BuiltinEngine()).divergence is None


@pytest.mark.parametrize("host", [4, 2], ids=["room on the host", "no room on the host"])
def test_a_write_back_gives_what_nothing_locks_with_room_on_the_host_and_without(host: int) -> None:
    """What the host has no room for is dropped, and that this happened is counted."""
    config = replace(CONFIG, write_policy="write_back", host_full_size=host, host_swa_size=host)
    verdict = drive_engine(Tape(config, (*SERVED, Finish(0), Evict(4, 4))), Hoarder())
    assert verdict.divergence is not None
    assert verdict.divergence.check == "eviction"
    assert ("host_short" in verdict.seen) == (host < 4)
