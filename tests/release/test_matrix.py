"""The release matrix on real releases: what it measures is true, and the same each time but for the seconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from plain_run import LONG

from staleloc.sim.matrix import command, file
from staleloc.sim.matrix.measurements import HuntBudget
from staleloc.sim.matrix.tables import cell_of, short
from staleloc.sim.tapes.scenarios import find_scenario
from staleloc.sim.targets.sglang.fetch import Release

BUGGY, FIXED = "sglang==0.5.18", "sglang==0.5.19"

NAMES = ("pr36739-second-group-end", "pr36081-deferred-free-swa-leak")


def test_a_matrix_of_two_releases_and_two_incidents(
    available: Callable[[str], Release], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are seen where they are, by tape and blind; the next run finds nothing left to do; nothing is new."""
    available(BUGGY)
    available(FIXED)
    known = tuple(scenario for name in NAMES if (scenario := find_scenario(name)) is not None)
    monkeypatch.setattr(command, "scenarios", lambda: known)
    asked = command.Asked((FIXED, BUGGY), (1,), HuntBudget(tapes=200))
    path, *others = [tmp_path / name for name in ("one.json", "two.json")[: 2 if LONG else 1]]
    for it in (path, *others):
        assert command.run(asked, command.MatrixOutputs(it, tmp_path / "page.html"))[:2] == (False, False)
    matrix = file.load(path)
    assert all(file.load(it) == matrix for it in others)
    assert matrix.releases == [BUGGY, FIXED]
    for scenario in known:
        buggy, fixed = (cell_of(matrix, scenario, target) for target in (BUGGY, FIXED))
        assert buggy.blind is not None
        assert buggy.blind.hits == 1
        assert short(fixed) == "."
    before = path.read_bytes()
    command.run(asked, command.MatrixOutputs(path, None))
    assert path.read_bytes() == before
