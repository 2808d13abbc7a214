"""Files to write: two names of one file are told, and a look at a file leaves what was there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from staleloc.sim.findings.files import KeepError, check_file, check_outputs


@pytest.mark.parametrize("name", ["link.json", "hard.json", "folder/../m.json"])
def test_a_file_by_another_name_is_the_same_file(tmp_path: Path, name: str) -> None:
    """What is written last would destroy what was measured."""
    file = tmp_path / "m.json"
    file.write_text("measured")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.json").symlink_to("m.json")
    os.link(file, tmp_path / "hard.json")
    with pytest.raises(KeepError, match="given twice"):
        check_outputs(file, None, tmp_path / name)
    check_outputs(file, tmp_path / "other.json")


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
