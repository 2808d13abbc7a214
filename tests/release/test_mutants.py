"""Mutants of a real release's allocator and pools: each is found as what it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from recorded_mutants import RECORDED

from staleloc.sim.run.campaign import Budget, Campaign
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.sglang.fetch import Release

SHOWN: dict[str, tuple[str, tuple[str, str]]] = {
    "sglang-free-swa-clears-given-locs": ("sglang==0.5.16", ("wrong-mapping", "mapping")),
    "sglang-clear-keeps-mapping": ("sglang==0.5.23", ("wrong-mapping", "mapping")),
    "sglang-cpu-copy-without-mask": ("sglang==0.5.23", ("mask-asymmetry", "mask")),
    "sglang-move-in-full-pool-only": ("sglang==0.5.23", ("wrong-content", "contents")),
}
"""Mutant -> a release that it fits, and class and check it shows as."""

NAMES = [
    name
    for name, mutant in MUTANTS.items()
    if (mutant.target, mutant.level) == ("sglang", "allocator") and name not in RECORDED
]


@pytest.mark.parametrize("name", NAMES)
def test_every_mutant_is_found(name: str, available: Callable[[str], Release]) -> None:
    """As the first divergence of 64 tapes."""
    target, shown = SHOWN[name]
    available(target)
    (found,) = Campaign(target, 0, Budget(tapes=64, first=True), 1, name).run().found
    assert found.divergence.key == shown
