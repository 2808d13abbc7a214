"""Line coverage of a real release: its own code is counted, and the record of what cannot be driven fits it."""

from __future__ import annotations

from collections.abc import Callable

from staleloc.sim.coverage.command import run
from staleloc.sim.coverage.measure import Plan
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.sglang.fetch import Release

TARGET = "sglang==0.5.23"


def test_coverage_of_a_release(available: Callable[[str], Release]) -> None:
    """A few tapes of single calls run most of the allocator, nothing of what belongs to Mamba, and each entry of the
    record names code that the release has."""
    available(TARGET)
    report = run(Plan(TARGET, 0, 16, None, 1, Scope()), ())
    names = {file.path: file for file in report.files}
    allocator = names["srt/mem_cache/allocator/swa.py"].count
    assert allocator.percent is not None
    assert allocator.percent > 75
    assert allocator.not_drivable > 50
    assert names["srt/mem_cache/unified_cache/components/mamba.py"].count.run == 0
    assert not report.stale, [(entry.name, flaw) for entry, flaw in report.stale]
