"""Real releases: each test loads one in a process of its own, or says why it cannot."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm

from staleloc.sim.targets.base import TargetError
from staleloc.sim.targets.sglang.fetch import Release, resolve

Probe = Callable[..., dict[str, Any]]


@pytest.fixture
def available() -> Callable[[str], Release]:
    """The release, fetched if need be; the test is skipped where it cannot be had."""

    def get(spec: str) -> Release:
        try:
            release = resolve(spec)
        except TargetError as error:
            pytest.skip(str(error))
        if spec.startswith("sglang=="):
            warm.remember(release.root)
        return release

    return get


@pytest.fixture
def probe(available: Callable[[str], Release]) -> Probe:
    """Run a script of this folder on a release and return what it printed."""

    def run(script: str, spec: str, *words: str, **environment: str) -> dict[str, Any]:
        available(spec)
        done = warm.run([str(Path(__file__).with_name(script)), spec, *words], **environment)
        assert done.returncode == 0, done.stderr[-3000:]
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer

    return run
