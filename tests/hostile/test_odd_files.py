"""Where a file is expected and something else is: one line, exit code 2, and no wait."""

from __future__ import annotations

import os
import socket
import zipfile
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from in_process import KINDS, PATHS, SCENARIO, call, refused, tree, words
from plain_run import LONG

from staleloc.sim.cli.paths import BASE, CHECKOUT, FILE, FOLDER, READ, TAPE, TAPES, TARGET
from staleloc.sim.matrix.measurements import Matrix
from staleloc.sim.tapes.codec import dumps
from staleloc.sim.tapes.scenarios import find_scenario

EXAMPLES = settings(
    max_examples=400 if LONG else 40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def folder(here: Path) -> Path:
    (here / "odd").mkdir()
    return here / "odd"


def pipe(here: Path) -> Path:
    os.mkfifo(here / "odd")
    return here / "odd"


def link_to_a_pipe(here: Path) -> Path:
    os.mkfifo(here / "pipe")
    (here / "odd").symlink_to("pipe")
    return here / "odd"


def listening(here: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as it:
        before = os.getcwd()
        os.chdir(here)  # the address of a socket is short
        it.bind("odd")
        os.chdir(before)
    return here / "odd"


def loop(here: Path) -> Path:
    (here / "odd").symlink_to("other")
    (here / "other").symlink_to("odd")
    return here / "odd"


def inside_a_loop(here: Path) -> Path:
    return loop(here) / "file"


def inside_a_file(here: Path) -> Path:
    (here / "plain").write_text("plain")
    return here / "plain" / "file"


def inside_nothing(here: Path) -> Path:
    return here / "none" / "file"


def too_long(here: Path) -> Path:
    return here / ("n" * 256)


def much_too_long(here: Path) -> Path:
    return here / "/".join(["folder"] * 1000)


def nameless(here: Path) -> Path:
    return Path("")


def zero_byte(here: Path) -> Path:
    return here / "a\0b"


def endless(here: Path) -> Path:
    return Path("/dev/zero")


ODD = (folder, pipe, link_to_a_pipe, listening, loop, inside_a_loop, inside_a_file, inside_nothing, too_long,
       much_too_long, nameless, zero_byte, endless)  # fmt: skip

FINE = {
    BASE: set(),
    CHECKOUT: set(),
    FILE: {endless},  # it takes everything
    FOLDER: {folder, inside_nothing, nameless},
    READ: set(),
    TAPE: set(),
    TAPES: {folder},
    TARGET: set(),
}
"""Kind of an option -> what is not odd there."""


@pytest.mark.parametrize(("command", "param"), PATHS, ids=[f"{command}-{it.name}" for command, it in PATHS])
@pytest.mark.parametrize("odd", ODD)
def test_something_else_than_a_file_is_one_line(
    command: str, param: click.Parameter, odd: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For every option of every command that names a file, a folder, a target or a tape."""
    kind = next(it for it in KINDS if it is param.type)
    if odd in FINE[kind]:
        return
    monkeypatch.chdir(tmp_path)
    path = odd(tmp_path)
    before = tree(tmp_path)
    for value in (f"sglang@{path}", f"sglang@{path}.whl", f"builtin@{path}") if kind is TARGET else (str(path),):
        assert refused(call(*words(command, (param, value)))), value
    assert tree(tmp_path) == before


@pytest.mark.parametrize("target", ["sglang@~nobody-of-this-name/sglang", "builtin@~nobody-of-this-name"])
@pytest.mark.parametrize("command", ["fuzz", "audit", "coverage", "replay"])
def test_the_home_of_nobody_is_one_line(command: str, target: str) -> None:
    """And no traceback of the function that looks it up."""
    param = next(it for other, it in PATHS if other == command and it.type is TARGET)
    assert refused(call(*words(command, (param, target))), "~nobody-of-this-name")


def test_a_name_that_is_no_text_can_be_written_to(tmp_path: Path, small: Matrix) -> None:
    """A file's name is bytes; those that are no UTF-8 go into the page and out of it."""
    from staleloc.sim.matrix import file

    measured, page = tmp_path / os.fsdecode(b"m\xff.json"), tmp_path / os.fsdecode(b"page\xfe.html")
    file.save(small, measured)
    done = call("matrix", "--show", "--json", str(measured), "--html", str(page))
    assert (done.code, done.err) == (0, "")
    assert page.exists()


TAPE_BYTES = dumps(find_scenario(SCENARIO).tape).encode()  # type: ignore[union-attr]


def mangled(data: bytes) -> st.SearchStrategy[bytes]:
    """A file of which a part is gone, is there twice, or is something else."""
    place = st.integers(0, len(data))
    junk = st.binary(max_size=40) | st.sampled_from([b"\0", b'"', b"[" * 500, b"{}", b"\xff", b"1e999", b"NaN", b","])
    return st.builds(lambda a, b, it: data[: min(a, b)] + it + data[max(a, b) :], place, place, junk)


@EXAMPLES
@given(data=mangled(TAPE_BYTES))
def test_a_mangled_tape_is_one_line(data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a tape, which is played by nobody here."""
    path = tmp_path / "tape.json"
    path.write_bytes(data)
    monkeypatch.setattr("staleloc.sim.run.player.replay", stop)
    done = call("replay", str(path), "--target", "builtin")
    assert refused(done) or refused(done, "would play")


def stop(*arguments: object) -> None:
    from staleloc.sim.run.player import Unplayable

    raise Unplayable("would play")


@EXAMPLES
@given(data=st.data())
def test_a_mangled_matrix_is_one_line(data: st.DataObject, tmp_path: Path, small: Matrix) -> None:
    """Or a matrix, which is shown."""
    from staleloc.sim.matrix import file

    path = tmp_path / "m.json"
    file.save(small, path)
    path.write_bytes(data.draw(mangled(path.read_bytes())))
    done = call("matrix", "--show", "--json", str(path))
    assert refused(done) or (done.code in (0, 1) and done.err == "")


@EXAMPLES
@given(data=st.data(), packed=st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA]))
def test_a_corrupt_wheel_is_one_line(
    data: st.DataObject, packed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the archive says of itself; nothing of it stays in the cache, and nothing of it is run."""
    monkeypatch.setenv("STALELOC_CACHE", str(tmp_path / "cache"))
    wheel = tmp_path / "sglang-0.5.12-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", packed) as archive:
        archive.writestr("sglang/__init__.py", "raise SystemExit(1)\n" * 30)
        archive.writestr("sglang/srt/mem_cache.py", "raise SystemExit(1)\n" * 30)
    wheel.write_bytes(data.draw(mangled(wheel.read_bytes())))
    assert refused(call("targets", "add", f"sglang@{wheel}"))
    assert tree(tmp_path / "cache") == {}
