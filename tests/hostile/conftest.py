"""What tests with hostile inputs share: a small matrix."""

from __future__ import annotations

import pytest

from staleloc.sim.matrix.measurements import Hunt, HuntBudget, HuntKey, Matrix, Replayed, Sighting
from staleloc.sim.targets.base import Scope


@pytest.fixture(scope="session")
def small() -> Matrix:
    """One release, one scenario, one hunt."""
    name, release = "pr27779-partial-page-eviction", "sglang==0.5.13"
    hunt = Hunt((name,), "0", 9, 5.0, {name: Sighting(8, 4.0)})
    replays = {release: {name: Replayed("diverges", "wrong-mapping: the mapping of <full loc> 5 | 6")}}
    return Matrix((0,), HuntBudget(tapes=9), 2, "0.1.0", [release], replays, {HuntKey(release, Scope(), 0): hunt})
