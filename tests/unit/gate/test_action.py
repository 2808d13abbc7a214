"""The GitHub action and the example workflow: their steps are run here, as a runner would run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from checkout import Repository, made

ROOT = Path(__file__).parents[3]

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))

STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}

WORKFLOWS = {
    "example": (ROOT / "examples" / "ci" / "kv-cache.yml").read_text(encoding="utf-8"),
    "readme": re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[0],
}


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with ``staleloc``, which is this checkout's, and ``python``, which notes what it is asked to do."""
    folder = tmp_path / "tools"
    folder.mkdir()
    scripts = {
        "staleloc": f'exec "{sys.executable}" -m staleloc.sim "$@"',
        "python": f'printf "%s\\n" "$@" > "{tmp_path}/asked"',
    }
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


def inputs(given: Mapping[str, str]) -> dict[str, str]:
    """The inputs of the action, of which the others have their defaults."""
    assert given.keys() <= ACTION["inputs"].keys()
    return {name: given.get(name, it["default"]) for name, it in ACTION["inputs"].items()}


def run(
    name: str, tools: Path, folder: Path, given: Mapping[str, str], **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a step as a runner does: with its environment, and with bash that ends at the first error."""
    values = inputs(given)
    step = STEPS[name]
    environment = {
        key: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda it: values[it[1]], text)
        for key, text in step.get("env", {}).items()
    }
    assert not any("${{" in text for text in (*environment.values(), step["run"]))
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", **environment, **more},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_pull_request_is_compared_with_its_base_branch(tools: Path, tmp_path: Path) -> None:
    """The base is fetched into a shallow clone, the change fails, and the files that later steps upload are there."""
    origin = made(tmp_path / "origin")
    branch = origin.git("branch", "--show-current").strip()
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", origin.root.as_uri(), "here"], cwd=tmp_path, check=True)
    here = Repository(tmp_path / "here")
    line = here.spoil() - 1
    step = tmp_path / "summary.md"
    given = {"target": "python/cache", "tapes": "1"}
    github = {"GITHUB_ACTIONS": "true", "GITHUB_BASE_REF": branch, "GITHUB_STEP_SUMMARY": str(step)}
    done = run("Test the change", tools, here.root, given, **github)
    assert done.returncode == 1, done.stderr
    assert f"::error file=python/cache/swa.py,line={line}," in done.stdout
    assert step.read_text(encoding="utf-8").startswith("### staleloc: builtin@python/cache: ")
    assert (here.root / ACTION["inputs"]["junit"]["default"]).exists()
    log = json.loads((here.root / ACTION["inputs"]["sarif"]["default"]).read_text(encoding="utf-8"))
    assert log["runs"][0]["results"]


def test_the_action_installs_this_package(tools: Path, tmp_path: Path) -> None:
    """From the action's own folder, with the pinned torch."""
    assert STEPS["Install staleloc"]["if"] == "inputs.install == 'true'"
    assert run("Install staleloc", tools, tmp_path, {}, GITHUB_ACTION_PATH=str(ROOT)).returncode == 0
    words = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert words == ["-m", "pip", "install", "--constraint", f"{ROOT}/constraints.txt", f"{ROOT}[sglang]"]
    assert (ROOT / "constraints.txt").exists()


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_uses_the_action_as_it_is(name: str) -> None:
    """Inputs that exist, and files that it writes; the one of the README has ten lines."""
    workflow: dict[Any, Any] = yaml.safe_load(WORKFLOWS[name])
    (job,) = workflow["jobs"].values()
    (ours,) = [step for step in job["steps"] if "staleloc" in step.get("uses", "")]
    values = inputs({key: str(value) for key, value in ours.get("with", {}).items()})
    for step in job["steps"]:
        if "sarif" in step.get("uses", ""):
            assert step["with"]["sarif_file"] == values["sarif"]
    assert workflow[True] == "pull_request"  # YAML reads "on" as true
    if name == "readme":
        assert len(WORKFLOWS[name].splitlines()) <= 10
