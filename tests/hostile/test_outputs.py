"""An output that cannot be written takes no other with it, and is listed; what it would replace stays whole."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import warm
from in_process import Done, call
from plain_run import LATER

from staleloc.sim.matrix import file
from staleloc.sim.matrix.measurements import Matrix
from staleloc.sim.matrix.pages import MARKS

MUTANT = "free-repeats-page"

FUZZ = ("fuzz", "--mutant", MUTANT, "--tapes", "24", "--first", "--workers", "1")

OLD = "precious"


def without_room(*arguments: str, broken: Path) -> Done:
    """Run a command while the disk of one folder is full."""
    sync = os.fsync

    def full(number: int) -> None:
        if Path(os.readlink(f"/proc/self/fd/{number}")).parent == broken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", full)
        return call(*arguments)


def places(folder: Path, *names: str) -> dict[str, Path]:
    """A file in a folder of its own for each name, with something in it."""
    files = {name: folder / name / "file" for name in names}
    for path in files.values():
        path.parent.mkdir()
        path.write_text(OLD)
    return files


def is_as_said(done: Done, files: dict[str, Path], broken: str, code: int) -> bool:
    """Whether the broken output is listed and as it was, and all others are written."""
    written = [name for name, path in files.items() if path.read_text() != OLD]
    assert sorted(it.name for path in files.values() for it in path.parent.iterdir()) == ["file"] * len(files)
    if broken not in files:
        return (done.code, written) == (code, list(files))
    line = f"staleloc: {files[broken]} cannot be written (No space left on device); give another path"
    return (done.code, written) == (2, [it for it in files if it != broken]) and line in done.err.splitlines()


@pytest.mark.parametrize("broken", ["json", pytest.param("repro", marks=LATER), "save"])
def test_a_campaign_writes_the_rest(broken: str, tmp_path: Path) -> None:
    """Its report is printed first, also if the finding itself cannot be saved."""
    files = places(tmp_path, "json", "repro")
    save = tmp_path / "save"
    words = ("--json", str(files["json"]), "--repro", str(files["repro"]), "--save", str(save))
    done = without_room(*FUZZ, *words, broken=tmp_path / broken)
    assert "double-free in builtin" in done.out
    if broken == "save":
        assert (done.code, list(save.iterdir())) == (2, [])
        assert "cannot be written (No space left on device)" in done.err
        assert is_as_said(Done(1, "", ""), files, "none", 1)
    else:
        assert is_as_said(done, files, broken, 1)
        assert [path.suffix for path in save.iterdir()] == [".json"]


@pytest.mark.parametrize("broken", ["json", "repro", "none"])
def test_a_replay_writes_the_rest(broken: str, tmp_path: Path) -> None:
    """A tape that diverges on a mutant."""
    files = places(tmp_path, "json", "repro")
    words = ("--mutant", "tail-keeps-former-owner", "--json", str(files["json"]), "--repro", str(files["repro"]))
    done = without_room("replay", "pr25805-tail-over-recycled-pages", "--target", "builtin", *words,
                        broken=tmp_path / broken)  # fmt: skip
    assert "shows the first divergence" in done.out or broken == "repro"
    assert is_as_said(done, files, broken, 1)


@pytest.mark.parametrize("broken", ["html", "page", "table", "none"])
def test_a_matrix_writes_the_rest(broken: str, small: Matrix, tmp_path: Path) -> None:
    """Each page on its own."""
    measured = tmp_path / "m.json"
    file.save(small, measured)
    files = places(tmp_path, "html", "page", "table")
    files["page"].write_text("")
    files["table"].write_text(f"{MARKS[0]}\n{MARKS[1]}\n")
    before = {name: path.read_text() for name, path in files.items()}
    words = [f"--{'html' if name == 'html' else 'markdown'}={path}" for name, path in files.items()]
    done = without_room("matrix", "--show", "--json", str(measured), *words, broken=tmp_path / broken)
    assert "27779" in done.out
    assert [name for name, path in files.items() if path.read_text() != before[name]] == [
        name for name in files if name != broken
    ]
    assert (done.code == 2) == (broken != "none")
    assert done.err.count("No space left on device") == (broken != "none")


def test_a_matrix_that_cannot_be_saved_is_still_shown(small: Matrix, tmp_path: Path) -> None:
    """The measurements go on, and the file is as it was."""
    measured = tmp_path / "full" / "m.json"
    measured.parent.mkdir()
    file.save(small, measured)
    before = measured.read_bytes()
    words = ("matrix", "--json", str(measured), "--targets", "sglang@nothing", "--blind", "none")
    done = without_room(*words, broken=measured.parent)
    assert (done.code, measured.read_bytes()) == (2, before)
    assert "27779" in done.out
    assert done.err.count("No space left on device") == 1


@LATER
@pytest.mark.parametrize("broken", ["json", "sarif", "html"])
def test_an_audit_writes_the_rest(broken: str, tmp_path: Path) -> None:
    """A short one."""
    files = places(tmp_path, "json", "sarif", "html")
    words = [f"--{name}={path}" for name, path in files.items()]
    done = without_room("audit", "--rounds", "1", "--guards", "host_pool.py:*", *words, broken=tmp_path / broken)
    assert "register_mapping" in done.out
    assert is_as_said(done, files, broken, 0)


@pytest.mark.parametrize("broken", ["json", pytest.param("none", marks=LATER)])
def test_a_coverage_report_is_printed_all_the_same(broken: str, tmp_path: Path) -> None:
    """Its file comes last."""
    files = places(tmp_path, "json")
    words = ("--tapes", "4", "--level", "allocator", "--files", "slots.py", "--workers", "1")
    done = without_room("coverage", *words, "--json", str(files["json"]), broken=tmp_path / broken)
    assert "slots.py" in done.out
    assert is_as_said(done, files, broken, 0)


def test_a_full_standard_output_costs_no_file(tmp_path: Path) -> None:
    """It is listed like any other output, once."""
    with open("/dev/full", "w") as full, open(os.devnull) as nothing, (tmp_path / "err").open("w") as err:
        command = ["-m", "staleloc.sim", *FUZZ, "--json", "a.json", "--repro", "b.py"]
        process = warm.Process(command, nothing, full, err, cwd=tmp_path)
        assert process.wait(120) == 2
    assert [it.name for it in sorted(tmp_path.iterdir())] == ["a.json", "b.py", "err", "staleloc-tapes"]
    assert list((tmp_path / "staleloc-tapes").iterdir())
    said = [line for line in (tmp_path / "err").read_text().splitlines() if "shrinking" not in line]
    assert said == ["staleloc: standard output took not everything (No space left on device)"]


def test_a_reader_that_left_costs_no_file(tmp_path: Path) -> None:
    """As with ``| head -1``: it has read enough, and the exit code is that of the run."""
    theirs, ours = os.pipe()
    os.close(theirs)
    with open(os.devnull) as nothing, (tmp_path / "err").open("w") as err:
        command = ["-m", "staleloc.sim", *FUZZ, "--json", "a.json", "--repro", "b.py"]
        process = warm.Process(command, nothing, ours, err, cwd=tmp_path)
        os.close(ours)
        assert process.wait(120) == 1
    assert [it.name for it in sorted(tmp_path.iterdir())] == ["a.json", "b.py", "err", "staleloc-tapes"]
    assert "Traceback" not in (tmp_path / "err").read_text()


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False, timeout=120)


PROGRAM = f"{sys.executable} -m staleloc.sim"


def test_closed_streams_and_a_limit_on_files(small: Matrix, tmp_path: Path) -> None:
    """No file gets the number of a closed stream. Beyond a limit nothing of a file is written; the old one stays."""
    file.save(small, tmp_path / "m.json")
    show = f"{PROGRAM} matrix --show --json m.json --html page.html"
    done = shell(f"{show} <&- >&- 2>&-; echo $?", tmp_path)
    assert done.stdout == "0\n"
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "27779" in page
    (tmp_path / "page.html").write_text(OLD)
    done = shell(f"ulimit -f 1; {show}", tmp_path)
    assert done.returncode == 2
    assert "27779" in done.stdout
    assert done.stderr.splitlines() == ["staleloc: page.html cannot be written (File too large); give another path"]
    assert (tmp_path / "page.html").read_text() == OLD
    assert sorted(it.name for it in tmp_path.iterdir()) == ["m.json", "page.html"]


@pytest.mark.parametrize("limit", ["-n 8", pytest.param("-v 150000", marks=LATER)])
def test_a_small_limit_is_one_line(limit: str, tmp_path: Path) -> None:
    """Of open files, and of memory."""
    done = shell(f"ulimit {limit} && exec {PROGRAM} fuzz --tapes 4 --workers 1", tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("staleloc: ")
    assert "Traceback" not in done.stderr


def test_what_may_not_be_written_is_said_before_the_run(tmp_path: Path) -> None:
    """A file without permission is not replaced, although its folder would allow it."""
    if os.geteuid() == 0:
        pytest.skip("root may write everything")
    path = tmp_path / "a.json"
    path.write_text(OLD)
    path.chmod(0o400)
    done = call(*FUZZ, "--json", str(path))
    assert (done.code, path.read_text()) == (2, OLD)
