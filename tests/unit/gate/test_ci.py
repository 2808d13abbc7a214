"""``staleloc ci`` on a checkout: what fails it, what is known, and what it writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
from checkout import Repository
from click.testing import CliRunner
from junitparser import JUnitXml

from staleloc.sim.cli.main import cli
from staleloc.sim.findings.files import KeepError
from staleloc.sim.gate import formats, play
from staleloc.sim.gate.accepted import accepted_schema, to_text
from staleloc.sim.gate.report import gate_schema
from staleloc.sim.targets.base import TargetError

Ci = Callable[..., tuple[int, str]]

BACK = "pr25889-mapping-replaced"


def cases(file: Path) -> list[tuple[str, str]]:
    """Verdict and name of each case that diverged."""
    result = json.loads(file.read_text(encoding="utf-8"))
    jsonschema.validate(result, gate_schema())
    return [(it["verdict"], it["name"]) for it in result["cases"] if it["finding"] is not None]


def test_a_planted_change_fails_and_every_output_names_its_line(
    repository: Repository, ci: Ci, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base is the commit before. The work tree is left as it is but for the tapes."""
    line = repository.spoil() - 1  # the line before the gap
    before = repository.git("status", "--porcelain")
    step = repository.root / "summary.md"
    step.write_text("of another step\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))
    outputs = ("--junit", "j.xml", "--sarif", "s.json", "--json", "r.json", "--save", "new")
    code, said = ci("--base", "HEAD", "--tapes", "2", *outputs)
    assert code == 1
    assert "builtin@python/cache: 2 new findings" in said
    place = f"python/cache/swa.py:{line}"
    assert said.count(f"look at {place} (changed, and run by the diverging tape)") == 2
    assert said.count(f"::error file=python/cache/swa.py,line={line},title=staleloc: wrong-mapping::") == 2
    (saved,) = (repository.root / "new").glob("*.json")
    assert [verdict for verdict, _ in cases(Path("r.json"))] == ["new", "new"]
    results = json.loads(Path("s.json").read_text(encoding="utf-8"))["runs"][0]["results"]
    uris = [it["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for it in results]
    assert uris == ["python/cache/swa.py"] * 2
    suites = {it.name: it for it in JUnitXml.fromfile("j.xml")}
    assert (suites["scenarios"].failures, suites["the allocator level"].failures) == (1, 1)
    assert step.read_text(encoding="utf-8").startswith("of another step\n### staleloc: builtin@python/cache: 2 new")
    for name in ("summary.md", "j.xml", "s.json", "r.json", str(saved.relative_to(repository.root))):
        (repository.root / name).unlink()
    assert repository.git("status", "--porcelain") == before


def test_an_incident_is_back_if_its_tape_diverges_in_its_class(
    repository: Repository, ci: Ci, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another class it shows another bug, which is new."""
    repository.spoil()
    assert ("new", BACK) in _judged(ci)
    real = play.replay

    def replay(*given: Any) -> Any:
        replayed, *found = real(*given)
        return (replace(replayed, verdict="diverges") if replayed.verdict == "other" else replayed, *found)

    monkeypatch.setattr(play, "replay", replay)
    assert ("back", BACK) in _judged(ci)


def _judged(ci: Ci) -> list[tuple[str, str]]:
    assert ci("--base", "HEAD", "--tapes", "1", "--json", "r.json")[0] == 1
    return cases(Path("r.json"))


def test_what_the_base_shows_is_known(repository: Repository, ci: Ci) -> None:
    """After the defect was committed, a change of anything else passes; another defect does not."""
    repository.spoil()
    repository.git("commit", "--quiet", "--all", "--message", "a defect")
    repository.change("class SwaAllocator", "# changed\nclass SwaAllocator")
    code, said = ci("--base", "HEAD", "--tapes", "2")
    assert (code, "0 new findings, 2 known" in said) == (0, True)
    code, said = ci("--base", "HEAD~1", "--tapes", "2")
    assert (code, "2 new findings" in said) == (1, True)
    assert ci("--base", "builtin", "--tapes", "1")[0] == 1


def test_findings_are_accepted_with_a_reason_and_stale_ones_are_told(repository: Repository, ci: Ci) -> None:
    """A file without reasons is no base. One with reasons is, until the target is mended: then it says so."""
    repository.spoil()
    file = Path("accepted.json")
    assert ci("--tapes", "2", "--accept", str(file))[0] == 0
    values = json.loads(file.read_text(encoding="utf-8"))
    jsonschema.validate({**values, "findings": [{**it, "tape": {}} for it in values["findings"]]}, frame())
    assert [it["scenario"] for it in values["findings"]] == [BACK, None]
    with pytest.raises(KeepError, match=r"finding 1 \(wrong-mapping: .*\) has no reason; write why"):
        ci("--base", str(file), "--tapes", "2")
    for it in values["findings"]:
        it["reason"] = "the pool is told by hand"
    file.write_text(json.dumps(values), encoding="utf-8")
    code, said = ci("--base", str(file), "--tapes", "2")
    assert (code, said.count("accepted: the pool is told by hand")) == (0, 2)
    repository.git("checkout", "--quiet", "python")
    code, said = ci("--base", str(file), "--tapes", "1")
    assert (code, " ".join(said.split()).count("no longer diverges; remove it from the accepted findings")) == (0, 2)
    assert ci("--tapes", "1", "--accept", str(file))[0] == 0
    assert json.loads(file.read_text(encoding="utf-8")) == values


def frame() -> dict[str, object]:
    """The schema of the file, but for its tapes."""
    schema = accepted_schema()
    entry = schema["properties"]["findings"]["items"]
    free = {**entry, "properties": {**entry["properties"], "tape": {}}}
    return {**schema, "properties": {**schema["properties"], "findings": {"type": "array", "items": free}}}


def test_kept_tapes_come_first_and_what_is_no_tape_is_told(repository: Repository, ci: Ci) -> None:
    """Without a base, a copy of the embedded target is compared with the embedded target."""
    repository.spoil()
    kept = repository.root / "kept"
    ci("--base", "HEAD", "--tapes", "2", "--save", "kept")
    (kept / "other.json").write_text("{}", encoding="utf-8")
    assert ci("--tapes", "1", "--kept", "kept", "--json", "r.json")[0] == 1
    (tape,) = kept.glob("builtin*.json")
    assert cases(Path("r.json"))[:2] == [("new", BACK), ("new", str(tape.relative_to(repository.root)))]
    assert "not played: kept/other.json: not a tape" in json.loads(Path("r.json").read_text())["warnings"][0]
    repository.git("checkout", "--quiet", "python")
    assert ci("--tapes", "1", "--kept", "kept")[0] == 0


def test_the_result_does_not_depend_on_the_number_of_workers(repository: Repository, ci: Ci) -> None:
    """With a number of tapes: cases, places and counts are the same."""
    repository.spoil()
    results = []
    for workers in ("1", "2"):
        ci("--base", "HEAD", "--tapes", "6", "--workers", workers, "--json", "r.json", "--save", f"to{workers}")
        results.append({**json.loads(Path("r.json").read_text()), "seconds": 0})
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--base", "nowhere"), "no target, no file and no commit of this repository; fetch it first"),
        (("--base", "sglang==0.5.9"), "older than"),
        (("--target", "docs"), "no checkout of builtin or SGLang; give one"),
        (("--kept", "nowhere"), "nowhere is no folder"),
    ],
)
def test_an_error_says_what_to_do(repository: Repository, ci: Ci, words: tuple[str, ...], says: str) -> None:
    """Before anything is played."""
    (repository.root / "docs").mkdir()
    with pytest.raises(TargetError, match=says):
        ci("--tapes", "1", *words)


def test_nothing_played_is_no_success(repository: Repository, ci: Ci) -> None:
    """A gate that passes although its time was too short would be worth nothing."""
    with pytest.raises(TargetError, match=r"no random tape was played .* give more --minutes"):
        ci("--minutes", "0.0001")


def test_fuzz_leaves_out_what_a_base_shows(repository: Repository, ci: Ci) -> None:
    """The same base as for ``ci``, one level, and an exit code of its own."""

    def fuzz(*words: str) -> tuple[int, str]:
        arguments = ["fuzz", "--target", "builtin@python/cache", "--tapes", "2", "--workers", "1", *words]
        done = CliRunner().invoke(cli, arguments, standalone_mode=False)
        assert done.exception is None
        return done.return_value, done.stdout

    repository.spoil()
    assert fuzz("--base", "HEAD")[0] == 1
    repository.git("commit", "--quiet", "--all", "--message", "a defect")
    code, said = fuzz("--base", "HEAD")
    assert code == 0
    assert "known: tape 1, wrong-mapping: HEAD (" in said
    with pytest.raises(TargetError, match="no commit of this repository"):
        CliRunner().invoke(
            cli,
            ["fuzz", "--target", "builtin@python/cache", "--base", "x"],
            standalone_mode=False,
            catch_exceptions=False,
        )


def test_no_output_is_a_base_and_one_that_fails_takes_no_other_with_it(
    repository: Repository, ci: Ci, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of accepted findings is not overwritten; a report that cannot be made makes the exit code 2."""
    file = Path("accepted.json")
    file.write_text(to_text([]), encoding="utf-8")
    with pytest.raises(click.UsageError, match=r"--json accepted\.json is the file that --base reads"):
        ci("--base", str(file), "--json", "./accepted.json", "--tapes", "1")
    assert file.read_text(encoding="utf-8") == to_text([])

    def fail(result: object) -> str:
        raise KeepError("j.xml cannot be written")

    monkeypatch.setattr(formats, "to_junit", fail)
    code, said = ci("--base", str(file), "--tapes", "1", "--junit", "j.xml", "--json", "r.json")
    assert (code, "0 new findings" in said, cases(Path("r.json"))) == (2, True, [])


def test_a_target_that_does_not_answer_is_ended_with_the_time(
    repository: Repository, ci: Ci, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an error, not a pass; the answer would have been waited for much longer."""
    monkeypatch.setattr(play.Gate, "_answer_seconds", 600.0)
    repository.change("        self._arena = Arena()\n", "        __import__('time').sleep(600)\n", "target.py")
    with pytest.raises(TargetError, match="the target had not answered when the time was over"):
        ci("--base", "HEAD", "--minutes", "0.05")
