"""Real releases: each test loads one in a process of its own, or says why it cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from staleloc.sim.targets.base import TargetError
from staleloc.sim.targets.sglang.fetch import resolve

Probe = Callable[..., dict[str, Any]]


@pytest.fixture
def probe() -> Probe:
    """Run a command of probe.py on a release and return what it printed."""

    def run(command: str, spec: str, **environment: str) -> dict[str, Any]:
        try:
            resolve(spec)
        except TargetError as error:
            pytest.skip(str(error))
        script = Path(__file__).with_name("probe.py")
        done = subprocess.run(
            [sys.executable, str(script), command, spec],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **environment},
            timeout=120,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer

    return run
