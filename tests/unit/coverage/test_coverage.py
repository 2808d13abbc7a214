"""``staleloc coverage`` on the embedded target: what is played, by how many workers, and what is said."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from staleloc.sim.cli.main import cli
from staleloc.sim.coverage import report
from staleloc.sim.coverage.measure import Plan, _Pool, measure
from staleloc.sim.parts.generate import scopes_of
from staleloc.sim.run.process import WorkerProcess
from staleloc.sim.tapes.schema import dumps
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.mutants.transform import builtin_root

SCOPES = [Scope(), Scope("engine"), Scope("engine", ("disagg", "spec"), together=True)]


def run(*arguments: str, code: int = 0) -> str:
    """What the command prints on standard output, which ends with this exit code."""
    done = CliRunner().invoke(cli, ["coverage", *arguments], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    assert done.return_value == code
    return done.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the embedded target with a function that nothing calls."""
    for file in builtin_root().glob("*.py"):
        (tmp_path / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    with (tmp_path / "swa.py").open("a", encoding="utf-8") as file:
        file.write("\n\ndef never_called(pool):\n    pool.drop()\n    return 1\n")
    return tmp_path


@pytest.mark.parametrize("scope", SCOPES, ids=str)
def test_coverage_plays_what_fuzz_plays(scope: Scope) -> None:
    """The answers to each tape are those of a plain worker, byte for byte, but for the lines."""
    tapes = list(range(6))
    files = [str(path) for path in builtin_root().glob("*.py")]
    with WorkerProcess("builtin") as plain, _Pool(files) as pool:
        with closing(pool.worker("builtin", None)) as covered:
            assert list(covered.run(scope, 3, tapes)) == list(plain.run(scope, 3, tapes))
        assert any(pool.lines.values())


def test_the_report_does_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    """The same seed and tapes give the same bytes."""
    said = []
    for workers in ("1", "2"):
        file = tmp_path / f"{workers}.json"
        arguments = ("--tapes", "32", "--seed", "1", "--level", "engine", "--workers", workers, "--json", str(file))
        said.append((run(*arguments), file.read_bytes()))
    assert said[0] == said[1]
    values = json.loads(said[0][1])
    jsonschema.validate(values, report.coverage_schema())
    assert values["total"]["run"] > 400
    assert values["scenarios"]["played"] > 5


def test_a_function_that_nothing_calls_is_reported(copy: Path) -> None:
    """In a changed copy, whose code has other file names than those of its files."""
    text = run("--target", f"builtin@{copy}", "--tapes", "8", "--level", "allocator", "--files", "swa.py")
    assert "  never_called (line" in text
    assert "never run" in text.partition("never_called")[2]
    assert "SwaAllocator" not in text.partition("never_called")[2]
    (row,) = [line for line in text.splitlines() if line.startswith("swa.py  ")]
    assert int(row.split()[2]) > 40, "lines of the copy were not noted"


def test_all_levels_and_combinations_are_played() -> None:
    """One scope each, so that a tape of a report can be played by `fuzz`."""
    scopes = scopes_of(BuiltinEngine.profiles)
    assert scopes[:3] == [Scope("allocator"), Scope("engine"), Scope("engine", ("disagg",))]
    assert {(it.level, it.asks) for it in BuiltinEngine.profiles} == {(it.level, it.features) for it in scopes}
    assert all(it.lacking(BuiltinEngine.profiles) is None for it in scopes)
    plan = Plan("builtin", 0, 1, None, 1)
    assert [it.scope for it in measure(plan, []).played] == scopes


def test_ci_can_ask_for_a_percentage() -> None:
    """Exit code 1 below it; the files that are not asked for do not count."""
    few = ("--tapes", "1", "--level", "allocator", "--workers", "1")
    run(*few, "--files", "slots.py,swa.py:*alloc*", "--min", "1")
    assert "disagg.py" in run(*few, "--files", "disagg.py", "--min", "100", code=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--target", "builtin", "--files", "nothing.py"), "nothing that is counted matches 'nothing.py'"),
        (("--target", "builtin", "--level", "allocator", "--features", "spec"), "--features go with --level engine"),
        (("--target", "vllm"), "unknown target 'vllm'"),
        (("--tapes", "1", "--seconds", "1"), "exclude each other"),
        (("--tapes", "1", "--json", "no/such/folder.json"), "cannot be written"),
    ],
)
def test_a_wrong_command_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    """It is said before anything is played."""
    with pytest.raises(Exception, match=message) as raised:
        run(*arguments)
    text: Any = getattr(raised.value, "format_message", lambda: str(raised.value))()
    assert "\n" not in text


def test_the_published_schema_is_current() -> None:
    """`python -m staleloc.sim.cli.schemas` writes it."""
    published = Path(report.__file__).with_name("coverage.schema.json").read_text(encoding="utf-8")
    assert published == dumps(report.coverage_schema())
    jsonschema.Draft202012Validator.check_schema(report.coverage_schema())
