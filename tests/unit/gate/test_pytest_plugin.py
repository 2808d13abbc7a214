"""``pytest --staleloc``, and the modules of ``staleloc replay --pytest``, each in a pytest of its own."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import warm
from checkout import Repository
from click.testing import CliRunner

from staleloc.sim.cli.main import cli
from staleloc.sim.core.tape import Tape
from staleloc.sim.findings.regression import MAX_LINES, regression_test
from staleloc.sim.tapes.codec import loads
from staleloc.sim.tapes.scenarios import find_scenario, scenarios

PLUGIN = "staleloc.sim.gate.pytest_plugin"

ROOT = Path(__file__).parents[3]

BACK = "pr25889-mapping-replaced"


def play(folder: Path, *words: str, **environment: str) -> tuple[int, list[str]]:
    """The exit code and the lines of a run of pytest, which has the plugin once, installed or not."""
    plain = ("-m", "pytest", "-p", "no:staleloc", "-p", PLUGIN, "-p", "no:cacheprovider", "-q", "-rA", "--color=no")
    done = warm.run([*plain, *words], folder, **environment)
    return done.returncode, (done.stdout + done.stderr).splitlines()


def write_regression(*words: str) -> Path:
    """Write the module for the scenario and return its path."""
    file = Path("test_it.py")
    done = CliRunner().invoke(cli, ["replay", BACK, "--pytest", str(file), *words], standalone_mode=False)
    assert done.exception is None
    assert f"wrote {file}, a test that plays this tape" in done.output
    return file


def test_each_scenario_level_and_tape_is_an_item(repository: Repository) -> None:
    """With a defect, those that show it fail with the report; the others pass, or say why they cannot be played."""
    repository.spoil()
    tape = repository.root / "kept" / "mine.json"
    tape.parent.mkdir()
    tape.write_text((ROOT / "scenarios" / f"{BACK}.json").read_text(encoding="utf-8"), encoding="utf-8")
    (tape.parent / "other.json").write_text("{}", encoding="utf-8")
    (tape.parent / "broken.json").write_text('{"format": "staleloc-tape", "version": 9}', encoding="utf-8")
    words = ("--staleloc", "python/cache", "--staleloc-base", "HEAD", "kept")
    code, lines = play(repository.root, *words, "--staleloc-tapes", "2", "-k", "pr2 or allocator or tape")
    assert code == 1
    failed = {line.split()[1] for line in lines if line.startswith("FAILED")}
    tapes = {"kept/mine.json::tape", "kept/broken.json::tape"}
    assert failed == {*tapes, f"staleloc::{BACK}", "staleloc::allocator-level"}
    assert "PASSED staleloc::pr26078-zero-tail" in lines
    assert any(line.startswith("SKIPPED") and "cannot be played" in line for line in lines)
    assert "wrong-mapping in builtin@python/cache, dsv4 pool (check mapping)" in lines
    assert not any("other.json" in line for line in lines)
    (tape.parent / "broken.json").unlink()
    repository.git("commit", "--quiet", "--all", "--message", "a defect")
    code, lines = play(repository.root, *words, "--staleloc-tapes", "0", "-k", f"{BACK} or tape")
    assert (code, sum(line.startswith("XFAIL") for line in lines)) == (0, 2)


def test_without_the_option_the_plugin_does_nothing(tmp_path: Path) -> None:
    """It collects no file, and a target that does not exist is one line."""
    (tmp_path / "tape.json").write_text('{"format": "staleloc-tape"}', encoding="utf-8")
    assert play(tmp_path)[0] == 5  # no tests
    code, lines = play(tmp_path, "--staleloc", "nonsense")
    assert (code, [line for line in lines if line]) == (4, [lines[0]])
    assert lines[0].startswith("ERROR: --staleloc: unknown target 'nonsense'")


def test_the_entry_point_leads_to_the_plugin() -> None:
    """Where the package is installed, pytest finds it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module = import_module(project["entry-points"]["pytest11"]["staleloc"])
    assert module.__name__ == PLUGIN
    assert hasattr(module, "pytest_addoption")


def test_a_regression_test_fails_with_the_defect_only(repository: Repository) -> None:
    """It is written for the target on which the tape was played, and plays on another that is named."""
    write_regression("--target", "builtin@python/cache")
    assert play(repository.root, "test_it.py")[0] == 0
    repository.spoil()
    code, lines = play(repository.root, "test_it.py")
    assert code == 1
    assert any("AssertionError: wrong-mapping: the mapping of full loc 4 is 4, expected 8" in line for line in lines)
    assert play(repository.root, "test_it.py", STALELOC_TARGET="builtin")[0] == 0


@pytest.mark.parametrize("name", [scenario.name for scenario in scenarios()])
def test_a_regression_test_is_short_and_has_the_whole_tape(name: str) -> None:
    """However long the tape is."""
    scenario = find_scenario(name)
    assert scenario is not None
    longer = Tape(scenario.tape.config, scenario.tape.events * 20)
    for tape in (scenario.tape, longer):
        text = regression_test(f"some/{name}.json", tape, None, "builtin", "a-mutant")
        assert text.count("\n") <= MAX_LINES
        compile(text, name, "exec")
        again = loads(text.partition('TAPE = """\n')[2].partition('"""')[0])
        assert (again.config, again.events) == (tape.config, tape.events)
        assert 'replay(loads(TAPE), TARGET, "a-mutant")' in text
