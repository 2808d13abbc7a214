"""The report in the README is the one that its command prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from staleloc.sim.findings.finding import Origin
from staleloc.sim.findings.search import find
from staleloc.sim.findings.text import render
from staleloc.sim.run.campaign import Budget
from staleloc.sim.targets.sglang.fetch import Release

README = Path(__file__).parents[2] / "README.md"


def test_the_sample_is_what_the_command_prints(available: Callable[[str], Release]) -> None:
    """But for the seconds: a report that people compare with their own must not be an old one."""
    if not README.exists():
        pytest.skip("an installed package has no README")
    (sample,) = re.findall(
        r"^```\n(stale-translation in (?:.*\n)+?)```", README.read_text(encoding="utf-8"), re.MULTILINE
    )
    target, seed, tapes = re.findall(r"--target (\S+) --seed (\d+) --tapes (\d+)", sample)[0]
    (saved,) = re.findall(r"saved as (\S+)", sample)
    available(target)
    findings = find(Origin(target, seed=int(seed)), Budget(tapes=int(tapes)), 1).findings
    (finding,) = [it for it in findings if it.origin.index == int(tapes) - 1]
    assert re.sub(r", [\d.]+ s\)", ", 0.0 s)", sample) == render(finding, saved, 0.0)
