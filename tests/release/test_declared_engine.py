"""A declared event of the engine level on a real release: a method called on the tree's allocator."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from staleloc.sim.targets.sglang.fetch import Release

RELEASE = "sglang==0.5.23"

SORT = '''
from staleloc.sim.declared import Declared


class Sort(Declared):
    """sorts the SWA free list"""

    kind = "sort_free"
    level = "engine"
    weight = 12

    def call(self, cache):
        allocator = cache.tree.token_to_kv_pool_allocator
        assert allocator is cache.allocator
        allocator.swa_attn_allocator.merge_and_sort_free()
'''

LOSES = """        free = allocator.swa_attn_allocator
        free.free_pages = free.free_pages[1:]
"""


@pytest.fixture
def fuzzed(available: Callable[[str], Release], tmp_path: Path) -> Callable[[str, str], tuple[int, str]]:
    """Exit code and report of a short campaign with such a file of events, and with these features."""

    def run(text: str, features: str) -> tuple[int, str]:
        available(RELEASE)
        (tmp_path / "mine.py").write_text(text, encoding="utf-8")
        scope = ["--features", features] if features else ["--level", "engine"]
        words = ["fuzz", "--target", RELEASE, "--tapes", "4", "--seed", "2", "--workers", "1", "--first", *scope]
        command = [sys.executable, "-m", "staleloc.sim", *words, "--events", "mine.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        return done.returncode, done.stdout

    return run


@pytest.mark.parametrize("features", ["", "spec"])
def test_a_method_that_does_it_right_is_silent(fuzzed: Callable[[str, str], tuple[int, str]], features: str) -> None:
    """It is played often, between the steps of a server with these features."""
    code, report = fuzzed(SORT, features)
    assert code == 0, report
    assert "declared event sort_free: played" in report


def test_a_method_that_loses_a_page_is_found(fuzzed: Callable[[str, str], tuple[int, str]]) -> None:
    """The tape is shrunk to the event, and its class says what it does."""
    code, report = fuzzed(SORT + LOSES, "")
    assert code == 1, report
    assert "1  sort_free  sorts the SWA free list   ← diverges" in report
    assert "has no owner and is in no free list" in report
