"""A matrix as a file: all that was measured, nothing that was not, and one run at a time."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from staleloc.sim.findings.files import KeepError
from staleloc.sim.matrix import file
from staleloc.sim.matrix.command import Asked, MatrixOutputs, run
from staleloc.sim.matrix.file import locked, matrix_schema
from staleloc.sim.matrix.measurements import Hunt, HuntBudget, HuntKey, Matrix
from staleloc.sim.tapes import schema as schemas
from staleloc.sim.targets.base import Scope, TargetError

NAME = "pr27779-partial-page-eviction"

SHOW = Asked((), None, None, measure=False)


def test_a_file_holds_all_that_was_measured(small: Matrix, tmp_path: Path) -> None:
    """It is valid under its schema, the published one is current, and the same bytes come out again."""
    path = tmp_path / "matrix.json"
    small.absent["sglang==9.9"] = "no such release"
    ended = Hunt((NAME,), "0", 7, 1.5, {}, note="it hung")
    small.hunts[HuntKey(small.releases[0], Scope("engine", ("disagg",)), 1)] = ended
    file.save(small, path)
    jsonschema.validate(json.loads(path.read_text(encoding="utf-8")), matrix_schema())
    again = file.load(path)
    assert again == small
    first = path.read_bytes()
    file.save(again, path)
    assert path.read_bytes() == first
    assert [it.name for it in tmp_path.iterdir()] == ["matrix.json"]
    published = Path(file.__file__).with_name("matrix.schema.json")
    assert published.read_text(encoding="utf-8") == schemas.dumps(matrix_schema())


@pytest.mark.parametrize("content", ["", "{}", "[1", '{"format": "staleloc-tape"}', "\x00", "[" * 100_000])
def test_a_file_that_is_no_matrix_is_refused_in_one_line(content: str, tmp_path: Path) -> None:
    """And it is left as it is."""
    path = tmp_path / "matrix.json"
    path.write_text(content)
    with pytest.raises(KeepError, match=r"^\S+ is not a matrix"):
        run(Asked((), None, None), MatrixOutputs(path, None))
    assert path.read_text() == content


def test_another_budget_or_other_seeds_do_not_go_into_a_file(small: Matrix, tmp_path: Path) -> None:
    """Cells of one table are measured alike."""
    path = tmp_path / "matrix.json"
    file.save(small, path)
    for asked in (Asked((), (0, 1), None), Asked((), None, HuntBudget(tapes=10))):
        with pytest.raises(KeepError, match="was measured with another"):
            run(asked, MatrixOutputs(path, None))
    new, interrupted, _ = run(Asked((), (0, 1, 2), HuntBudget(tapes=9), measure=False), MatrixOutputs(path, None))
    assert (new, interrupted) == (False, False)


def test_a_missing_file_cannot_be_shown(tmp_path: Path) -> None:
    """A slip of the pen is no empty table."""
    path = tmp_path / "m.json"
    asked = Asked((), None, None, measure=False)
    with pytest.raises(KeepError, match="does not exist"):
        run(asked, MatrixOutputs(path, None))


def change(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Put a value at a path such as ``hunts.0.seed``."""

    def make(values: Any) -> None:
        *folders, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        for part in folders:
            values = values[part]
        values[last] = value

    return make


RELEASES = ["sglang==0.5.13", "sglang==0.5.14"]

SILENT = {"verdict": "silent", "what": ""}

BUDGET = {"tapes": None, "seconds": None}

OTHER = {"class": "leak", "check": "conservation", "what": "", "tape": 9}


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (change("seeds", []), r"at \$\.seeds: "),
        (change("seeds", [0, 1, 2, 2]), r"at \$\.seeds: "),
        (change("seeds", [0, 1, 2, 10**30]), r"at \$\.seeds\[3\]: "),
        (change("cores", 10**30), r"at \$\.cores: "),
        (change("budget", BUDGET), r"at \$\.budget"),
        (change("budget", {"tapes": 9, "seconds": 9.0}), r"at \$\.budget"),
        (change("budget", {"tapes": None, "seconds": 10**400}), "an integer of 401 digits"),
        (change("budget", {"tapes": 0, "seconds": None}), r"at \$\.budget"),
        (change("budget", {"tapes": 8, "seconds": None}), "seed 0: 9 tapes were played of 8 tapes"),
        (change("hunts.0.seconds", float("inf")), "Infinity is not JSON"),
        (change("hunts.0.seconds", float("nan")), "NaN is not JSON"),
        (change("hunts.0.seconds", 1e300), r"at \$\.hunts\[0\]\.seconds: "),
        (
            change("releases", ["sglang==0.5.13", "sglang==0.5.14", "sglang==0.5.15"]),
            "0.5.15 is among the releases only",
        ),
        (change("releases", RELEASES[:1]), "sglang==0.5.14 is among the replays only"),
        (change("releases", RELEASES[::-1]), "not in order"),
        (change("releases", ["<b>"]), r"at \$\.releases\[0\]: "),
        (change("releases", ["sglang==x"]), "Invalid version: 'x'"),
        (
            change("replays", {"sglang==0.5.13": {}, "sglang==0.5.14": {"<b>": {"verdict": "silent", "what": ""}}}),
            "<b>",
        ),
        (change("hunts.0.wanted", ["nonsense"]), "seed 0: no scenario is called nonsense"),
        (change("hunts.0.found", {"nonsense": {"tape": 0, "seconds": 0}}), "no scenario is called nonsense"),
        (change("hunts.0.found", {NAME: {"tape": 9, "seconds": 0}}), "seed 0: tape 9 was found, of 9 tapes"),
        (change("hunts.0.found", {NAME: {"tape": 8, "seconds": 5.5}}), "found after 5.5 s of 5.0"),
        (change("hunts.0.others", [OTHER]), "seed 0: tape 9 was found, of 9 tapes"),
        (change("hunts.1.tapes", 5), None),
        (lambda values: values["hunts"][1].update(tapes=5, found={}), "ended after 5 tapes"),
        (lambda values: values["hunts"][1].update(tapes=5, found={}, note="it hung"), None),
        (change("hunts.0.target", "sglang==0.5.15"), "its release is not in the file"),
        (change("hunts.0.seed", 7), "seed 7: its seed is not in the file"),
        (change("hunts.0.seed", 1), "a hunt occurs twice"),
    ],
)
def test_what_no_run_can_have_measured_is_refused(
    made: Callable[[dict[str, Any]], None], why: str | None, small: Matrix, tmp_path: Path
) -> None:
    """In one line that says what, be it shown or gone on with; and the file is left as it is."""
    path = tmp_path / "matrix.json"
    values = file.to_json(small)
    made(values)
    path.write_text(json.dumps(values))
    before = path.read_bytes()
    if why is None:
        run(SHOW, MatrixOutputs(path, None))
        return
    for asked in (SHOW, replace(SHOW, measure=True)):
        with pytest.raises(KeepError, match=why) as raised:
            run(asked, MatrixOutputs(path, None))
        assert "\n" not in str(raised.value)
    assert path.read_bytes() == before
    assert [it.name for it in tmp_path.iterdir()] == ["matrix.json"]


def test_seconds_that_are_a_budget_are_spent_or_the_hunt_says_why_not(small: Matrix, tmp_path: Path) -> None:
    """Those of a file are rounded."""
    path = tmp_path / "matrix.json"
    key = HuntKey("sglang==0.5.14", Scope(), 0)
    for spent, fits in ((4.9994, False), (4.9995, True), (5.1, True)):
        matrix = replace(small, budget=HuntBudget(seconds=5.0004), hunts={key: Hunt((), "0", 9, spent, {})})
        file.save(matrix, path)
        if fits:
            assert file.load(path).hunts.keys() == {key}
        else:
            with pytest.raises(KeepError, match="gives no reason"):
                file.load(path)


def test_nothing_is_left_of_a_run_that_measured_nothing(tmp_path: Path) -> None:
    """A release that can not be had is told, and is no table."""
    path = tmp_path / "matrix.json"
    with pytest.raises(TargetError, match="has no policy"):
        run(Asked(("builtin:nonsense",), None, None), MatrixOutputs(path, None))
    assert list(tmp_path.iterdir()) == []


def test_two_runs_do_not_measure_into_one_file(small: Matrix, tmp_path: Path) -> None:
    """The second is refused, by whatever name it calls the file; to show what is there is no harm."""
    path, link = tmp_path / "matrix.json", tmp_path / "link.json"
    file.save(small, path)
    link.symlink_to(path)
    for name in (path, link):
        with locked(path), pytest.raises(KeepError, match="another run measures into"):
            run(replace(SHOW, measure=True), MatrixOutputs(name, None))
    with locked(path):
        run(SHOW, MatrixOutputs(path, None))
    file.save(small, link)
    assert link.is_symlink()
    link.unlink()
    assert [it.name for it in tmp_path.iterdir()] == ["matrix.json"]


def test_a_killed_run_keeps_nobody_off_its_file(tmp_path: Path) -> None:
    """It can not clear away what it left."""
    path = tmp_path / "matrix.json"
    code = f"""
import os, pathlib
from staleloc.sim.matrix.file import locked
with locked(pathlib.Path({str(path)!r})):
    os.kill(os.getpid(), {signal.SIGKILL.value})
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == [".matrix.json.staleloc-lock"]
    with locked(path):
        pass
    assert os.listdir(tmp_path) == []


def test_a_lock_on_a_file_that_is_gone_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the run that had it ends between the two steps of the next one."""
    path, lock = tmp_path / "matrix.json", tmp_path / ".matrix.json.staleloc-lock"
    flock = fcntl.flock

    def slow(held: int, how: int) -> None:
        lock.unlink()
        monkeypatch.setattr(fcntl, "flock", flock)
        flock(held, how)

    monkeypatch.setattr(fcntl, "flock", slow)
    with locked(path), pytest.raises(KeepError), locked(path):
        pass
