"""The conformance script where there is no GPU: it says so, or tries itself with the CPU on both sides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from plain_run import LATER

torch = pytest.importorskip("torch")

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "cuda_conformance.py"

FORBIDDEN = ("click", "hypothesis", "jsonschema", "numpy", "packaging", "platformdirs", "rich", "pytest")

BARE = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        frame = sys._getframe(1)
        while "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        if name.split(".")[0] in {FORBIDDEN!r} and frame.f_code.co_filename.startswith("{SCRIPT.parents[1]}"):
            raise ImportError("not on a bare box: " + name)
sys.meta_path.insert(0, Refuse())
"""


DEADLY = f"""
import importlib.machinery, os, sys
class Deadly:
    def find_spec(self, name, path=None, target=None):
        if name != "cuda_play":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, ["{SCRIPT.parent}"])
        load = spec.loader.exec_module
        def exec_module(module):
            load(module)
            compare = module.compare
            module.compare = lambda index, *rest: os._exit(3) if index == 9 else compare(index, *rest)
        spec.loader.exec_module = exec_module
        return spec
sys.meta_path.insert(0, Deadly())
"""


def run(folder: Path, site: str, *words: str) -> subprocess.CompletedProcess[str]:
    """The script, in a folder of its own, with code that every one of its processes runs first."""
    (folder / "site").mkdir(exist_ok=True)
    (folder / "site" / "sitecustomize.py").write_text(site, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(folder / "site"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(SCRIPT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)


def result(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "results" / "cuda.json").read_text(encoding="utf-8")))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_without_a_card_it_is_skipped_with_one_line(tmp_path: Path) -> None:
    """And with exit code 0, so that it can be part of any run."""
    done = run(tmp_path, BARE)
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert done.stdout.startswith("skipped: torch sees no CUDA card")


def test_on_the_cpu_both_sides_agree(tmp_path: Path) -> None:
    """The workers, the comparison and both files, with nothing imported but torch, the standard library and us."""
    done = run(tmp_path, BARE, "--device", "cpu", "--tapes", "16", "--workers", "1", "--out", "results")
    assert done.returncode == 0, done.stdout + done.stderr
    found = result(tmp_path)
    assert found["conforms"]
    assert (found["tapes"], found["different"], found["deaths"]) == (16, 0, [])
    assert sum(target["diverged"] for name, target in found["targets"].items() if name != "clean") > 0
    assert found["targets"]["clean"]["diverged"] == 0
    assert found["timing"]["stale"] == {"invalidated": 0, "not_invalidated": 20}
    assert "**0 differences**" in (tmp_path / "results" / "cuda.md").read_text(encoding="utf-8")


@LATER
def test_a_worker_that_dies_is_told_by_its_tape(tmp_path: Path) -> None:
    """Its tape is left out, the tapes behind it are played, and the run does not conform."""
    done = run(tmp_path, DEADLY, "--device", "cpu", "--tapes", "11", "--workers", "1", "--out", "results")
    assert done.returncode == 1, done.stdout + done.stderr
    found = result(tmp_path)
    assert [(death["tape"], death["code"]) for death in found["deaths"]] == [(9, 3)]
    assert (found["tapes"], found["different"], found["conforms"]) == (10, 0, False)
