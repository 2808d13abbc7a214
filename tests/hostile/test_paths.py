"""No output is an input or another output, for every command and every pair of its options."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from in_process import KINDS, PATHS, call, refused, tree, words

from staleloc.sim.cli.main import cli
from staleloc.sim.cli.paths import FILE, FOLDER, TARGET, Command
from staleloc.sim.core.divergence import CLASSES
from staleloc.sim.targets.mutants.transform import builtin_root


def another_case(path: Path) -> Path:
    return path.parent / "." / path.name


def through_a_folder(path: Path) -> Path:
    (path.parent / "folder").mkdir()
    return path.parent / "folder" / ".." / path.name


def relative(path: Path) -> Path:
    return Path(os.path.relpath(path))


def link(path: Path) -> Path:
    (path.parent / "link").symlink_to(path.name)
    return path.parent / "link"


def link_to_a_link(path: Path) -> Path:
    return link(link(path).rename(path.parent / "first"))


def link_to_the_folder(path: Path) -> Path:
    (path.parent / "folder").symlink_to(".")
    return path.parent / "folder" / path.name


def hard_link(path: Path) -> Path:
    os.link(path, path.parent / "hard")
    return path.parent / "hard"


WAYS = (Path, another_case, through_a_folder, relative, link, link_to_a_link, link_to_the_folder, hard_link)


def pairs() -> Iterator[tuple[str, click.Parameter, click.Parameter]]:
    """Pairs of options of one command of which one writes; not of a target, which is a folder."""
    for (command, one), (other_command, other) in itertools.combinations(PATHS, 2):
        kinds = (one.type, other.type)
        if command == other_command and TARGET not in kinds and (FILE in kinds or FOLDER in kinds):
            yield command, one, other
    for command, param in PATHS:
        if isinstance(param, click.Option) and param.multiple and param.type is FILE:
            yield command, param, param


PAIRS = list(pairs())


@pytest.mark.parametrize(("command", "one", "other"), PAIRS, ids=[f"{c}-{a.name}-{b.name}" for c, a, b in PAIRS])
@pytest.mark.parametrize("way", WAYS)
def test_one_file_is_not_given_twice(
    command: str, one: click.Parameter, other: click.Parameter, way: Callable[[Path], Path], tmp_path: Path
) -> None:
    """By whatever name: what is written last would destroy what is read, or what was written first."""
    file = tmp_path / "file"
    file.write_text("precious")
    again = way(file)
    line = words(command, (one, file), (other, again)) if one is not other else twice(command, one, file, again)
    before = tree(tmp_path)
    assert refused(call(*line))
    assert tree(tmp_path) == before


def twice(command: str, param: click.Parameter, file: Path, again: Path) -> list[str]:
    return [command, param.opts[0], str(file), param.opts[0], str(again)]


TARGETED = sorted({command for command, param in PATHS if param.type is TARGET})

OUTPUTS = [(command, param) for command, param in PATHS if command in TARGETED and param.type is FILE]


@pytest.mark.parametrize(("command", "param"), OUTPUTS, ids=[f"{command}-{it.name}" for command, it in OUTPUTS])
@pytest.mark.parametrize("name", ["swa.py", "new.py", "../link.py"])
def test_no_output_is_a_source_of_the_target(command: str, param: click.Parameter, name: str, tmp_path: Path) -> None:
    """Neither one that is there, nor a new one, which would be loaded with the others the next time."""
    copy = tmp_path / "copy"
    package = copy / "sglang"
    (package / "srt" / "mem_cache").mkdir(parents=True)
    for file in ("swa.py", "target.py"):
        shutil.copy(builtin_root() / file, copy)
        shutil.copy(builtin_root() / file, package)
    target = next(it for other, it in PATHS if other == command and it.type is TARGET)
    where, value = (package, f"sglang@{copy}") if command == "matrix" else (copy, f"builtin@{copy}")
    (where.parent / "link.py").symlink_to(where / "swa.py")
    before = tree(tmp_path)
    assert refused(call(*words(command, (target, value), (param, where / name))), "sources")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("suffix", ["", "-unshrunk"])
@pytest.mark.parametrize("kind", CLASSES)
def test_no_output_is_named_like_a_finding_in_their_folder(kind: str, suffix: str, tmp_path: Path) -> None:
    """A finding that is saved later would replace it."""
    name = f"builtin-seed0-tape3-{kind}{suffix}.json"
    assert refused(call("fuzz", "--save", str(tmp_path), "--json", str(tmp_path / name)), "named like a finding")


@pytest.mark.parametrize("option", ["--junit", "--sarif", "--json", "--summary", "--accept"])
def test_no_output_is_a_kept_tape(option: str, tmp_path: Path) -> None:
    """Nor one that would be read as such at the next run; also through a link."""
    kept = tmp_path / "kept"
    kept.mkdir()
    tape = kept / "tape.json"
    tape.write_text("{}", encoding="utf-8")
    (tmp_path / "link.xml").symlink_to(tape)
    before = tree(tmp_path)
    for path in (tape, kept / "other.json", tmp_path / "link.xml"):
        given = ["ci", "--target", "builtin", "--kept", str(kept), option, str(path)]
        assert refused(call(*given), "one of the tapes that --kept reads")
    assert tree(tmp_path) == before


def test_every_option_that_names_a_file_is_of_a_kind_that_is_compared() -> None:
    """An option with `click.Path`, or a command of another class, would go unnoticed."""
    commands = [*cli.commands.values(), *(it for group in cli.commands.values() if isinstance(group, click.Group)
                                          for it in group.commands.values())]  # fmt: skip
    for command in commands:
        assert not [param.name for param in command.params if isinstance(param.type, click.Path | click.File)]
        named = [it for it in command.params if isinstance(it, click.Option) and it.metavar in ("FILE", "DIR")]
        assert all(param.type in KINDS for param in named)
        if any(param.type in KINDS for param in command.params):
            assert isinstance(command, Command)
    assert len(PAIRS) * len(WAYS) > 150
