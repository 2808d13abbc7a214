"""What unit tests share: hostile targets, code that a worker process runs before anything else and that this process
never sees; scripts, run where staleloc is not; and a small matrix."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import warm

from staleloc.sim.matrix.measurements import Hunt, HuntBudget, HuntKey, Matrix, Replayed, Sighting
from staleloc.sim.targets.base import Scope

_PROLOGUE = """
import sys
if "staleloc.sim.run.worker" in sys.orig_argv:
    import itertools, os, signal, subprocess, time
    from pathlib import Path
    from staleloc.models.config import Config
    from staleloc.sim.targets.base import TargetError
    from staleloc.sim.targets.builtin.target import BuiltinTarget
    HERE = Path(__file__).parent
    build = BuiltinTarget.build
"""


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Make every worker started from now on run this code, in which `BuiltinTarget` can be spoilt; returns `HERE`."""

    def spoil(code: str) -> Path:
        source = _PROLOGUE + textwrap.indent(textwrap.dedent(code), "    ")
        (tmp_path / "sitecustomize.py").write_text(source, encoding="utf-8")
        paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
        return tmp_path

    return spoil


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """Run a script in an empty folder, in an interpreter that cannot import staleloc."""

    def call(text: str, **environment: str) -> tuple[int, str, str]:
        path = tmp_path / "repro.py"
        path.write_text(text, encoding="utf-8")
        (tmp_path / "empty").mkdir(exist_ok=True)
        done = warm.run([str(path)], tmp_path / "empty", without="staleloc", **environment)
        return done.returncode, done.stdout, done.stderr

    return call


@pytest.fixture
def small() -> Matrix:
    """Two releases, one scenario, three hunts on the older one."""
    name, old, new = "pr27779-partial-page-eviction", "sglang==0.5.13", "sglang==0.5.14"
    hunts = {
        HuntKey(old, Scope(), seed): Hunt((name,), "0", 9, 5.0, {name: Sighting(tape, tape / 2)})
        for seed, tape in enumerate((8, 0, 3))
    }
    diverges = Replayed("diverges", "wrong-mapping: the mapping of <full loc> 5 | 6")
    replays = {old: {name: diverges}, new: {name: Replayed("silent")}}
    return Matrix((0, 1, 2), HuntBudget(tapes=9), 2, "0.1.0", list(replays), replays, hunts)
