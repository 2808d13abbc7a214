"""Hostile targets: code that a worker process runs before anything else, and that this process never sees."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

_PROLOGUE = """
import sys
if "staleloc.sim.worker" in sys.orig_argv:
    import os, signal, subprocess, time
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
