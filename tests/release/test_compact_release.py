"""The worked example of the documentation on a real release, the last that caches a translation in its DeepSeek-V4
pool: a method that re-packs the SWA pool, with and without its invalidation."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
import warm

from staleloc.sim.targets.sglang.fetch import Release

EXAMPLE = Path(__file__).parents[2] / "examples" / "compact"

RELEASE = "sglang==0.5.12.post1"


@pytest.mark.parametrize(("forget", "verdict"), [(True, "unguarded"), (False, "safe")])
def test_the_audit_tells_whether_it_forgets(
    available: Callable[[str], Release], tmp_path: Path, forget: bool, verdict: str
) -> None:
    """What other sites of the release are is not asked here."""
    available(RELEASE)
    target = runpy.run_path(str(EXAMPLE / "patch.py"))["copy"](RELEASE, tmp_path / "patched", forget)
    words = ["--target", target, "--events", str(EXAMPLE / "events.py"), "--rounds", "6", "--json", "audit.json"]
    words += ["--guards", "*:*.compact"]
    done = warm.run(["-m", "staleloc.sim", "audit", *words], tmp_path)
    assert done.returncode in ({1} if forget else {0, 1}), done.stdout + done.stderr
    sites = json.loads((tmp_path / "audit.json").read_text())["sites"]
    (found,) = [it for it in sites if it["function"] == "SWATokenToKVPoolAllocator.compact"]
    assert found["verdict"] == verdict
    shown = "> 4  compact        re-packs the SWA pool: live pages move to its end   ← became stale"
    assert (shown in done.stdout) == forget
