"""Files to write: in one step, each on its own, and a look at a file leaves what was there."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from staleloc.sim.findings.files import KeepError, Writer, check_file, remove_leftovers, write


def test_a_file_that_cannot_be_written_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full while the new text is written: nothing of it is there, and nothing of the old one is gone."""
    file = tmp_path / "m.json"
    write(file, "old")

    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KeepError, match="No space left"):
        write(file, "new")
    assert [(it.name, it.read_text()) for it in tmp_path.iterdir()] == [("m.json", "old")]


def test_a_file_keeps_its_link_and_its_mode(tmp_path: Path) -> None:
    """The file is replaced, where a link leads to; its permissions stay."""
    file, link = tmp_path / "m.json", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to("m.json")
    write(link, "new")
    assert link.is_symlink()
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o640)


def test_each_output_is_written_on_its_own(tmp_path: Path) -> None:
    """One that fails is listed, and takes no other with it."""
    writer = Writer()
    assert not writer.write(tmp_path / "none" / "a", lambda: "a")
    assert writer.write(tmp_path / "b", lambda: "b")
    assert not writer.write(None, lambda: "c")
    assert [it.name for it in tmp_path.iterdir()] == ["b"]
    (line,) = writer.failed
    assert "cannot be written" in line


def test_what_a_dead_run_left_is_removed_and_what_a_live_one_writes_is_not(tmp_path: Path) -> None:
    """A live one holds a lock."""
    dead, live = tmp_path / ".staleloc-1-0.new", tmp_path / ".staleloc-2-0.new"
    dead.touch()
    with live.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        remove_leftovers(tmp_path)
        assert list(tmp_path.iterdir()) == [live]


def test_a_look_at_a_link_to_nothing_leaves_it(tmp_path: Path) -> None:
    """Neither is the link gone, nor is there a file where it leads."""
    link = tmp_path / "link"
    link.symlink_to("new")
    check_file(link)
    assert link.is_symlink()
    assert not (tmp_path / "new").exists()


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """There may never be a reader."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(KeepError, match="a pipe"):
        check_file(tmp_path / "pipe")
