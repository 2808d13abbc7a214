"""The GitHub action and the example workflow: their steps are run here, as a runner would run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from checkout import Repository
from click.testing import CliRunner

from staleloc.sim.cli.main import cli

ROOT = Path(__file__).parents[3]

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))

STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}

WORKFLOWS = {
    "example": (ROOT / "examples" / "ci" / "kv-cache.yml").read_text(encoding="utf-8"),
    "readme": re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[0],
}


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with ``staleloc`` and ``python``, which note what they are asked to do; see `asked`."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("staleloc", "python"):
        text = f'#!/bin/sh\nprintf "%s\\n" "$@" > "{tmp_path}/asked"\n'
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


def asked(tools: Path) -> list[str]:
    """The words of the command that a step has run."""
    return (tools.parent / "asked").read_text(encoding="utf-8").splitlines()


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


def test_a_pull_request_is_compared_with_its_base_branch(
    repository: Repository, tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base is fetched into a shallow clone; the command that the step gives fails, and writes the files that later
    steps upload."""
    branch = repository.git("branch", "--show-current").strip()
    subprocess.run(
        ["git", "clone", "--quiet", "--depth", "1", repository.root.as_uri(), "here"], cwd=tmp_path, check=True
    )
    here = Repository(tmp_path / "here")
    line = here.spoil() - 1
    here.git("commit", "--quiet", "--all", "--message", "a defect")
    done = run("Test the change", tools, here.root, {"target": "python/cache", "tapes": "1"}, GITHUB_BASE_REF=branch)
    assert done.returncode == 0, done.stderr
    monkeypatch.chdir(here.root)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    played = CliRunner().invoke(cli, asked(tools), standalone_mode=False)
    assert played.return_value == 1
    assert f"::error file=python/cache/swa.py,line={line}," in played.stdout
    assert (tmp_path / "summary.md").read_text(encoding="utf-8").startswith("### staleloc: builtin@python/cache: ")
    assert (here.root / ACTION["inputs"]["junit"]["default"]).exists()
    log = json.loads((here.root / ACTION["inputs"]["sarif"]["default"]).read_text(encoding="utf-8"))
    assert log["runs"][0]["results"]


def test_the_inputs_become_options(tools: Path, tmp_path: Path) -> None:
    """A time unless there is a number of tapes; each line of the bases is one."""
    given = {"base": "main\n\naccepted findings.json\n", "minutes": "3", "target": "a b"}
    assert run("Test the change", tools, tmp_path, given, GITHUB_BASE_REF="ignored").returncode == 0
    assert asked(tools) == [
        *("ci", "--target", "a b", "--sarif", "staleloc.sarif", "--junit", "staleloc.xml", "--minutes", "3"),
        *("--base", "main", "--base", "accepted findings.json"),
    ]


def test_the_action_installs_this_package(tools: Path, tmp_path: Path) -> None:
    """From the action's own folder, with the pinned torch."""
    assert STEPS["Install staleloc"]["if"] == "inputs.install == 'true'"
    assert run("Install staleloc", tools, tmp_path, {}, GITHUB_ACTION_PATH=str(ROOT)).returncode == 0
    assert asked(tools) == ["-m", "pip", "install", "--constraint", f"{ROOT}/constraints.txt", f"{ROOT}[sglang]"]
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
