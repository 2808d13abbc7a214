"""A campaign at a server's own shape reaches what makes that shape worth testing."""

from __future__ import annotations

from collections.abc import Callable

from staleloc.sim.run.campaign import Budget, Campaign
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.pins import read_pins
from staleloc.sim.targets.sglang.fetch import Release

SERVER = "page_size=64,window=128,host=on,write_policy=write_through,spec_version=v2,spec_steps=3,spec_topk=1"


def test_large_pages_with_drafts_and_a_host_tier(available: Callable[[str], Release]) -> None:
    """At page 64 and window 128, rows are loaded back from the host and windows of running requests are evicted."""
    available("sglang==0.5.23")
    scope = Scope("engine", ("spec",), pins=read_pins(SERVER))
    results = Campaign("sglang==0.5.23", 0, Budget(tapes=8), 1, scope=scope).run()
    assert results.found == []
    assert {"host_hit", "remapped_load_back", "window_evicted_running"} <= results.seen.keys(), results.reached
