"""Releases come into the cache whole, checked and without leaving the folder, or not at all."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from staleloc.sim.targets.base import TargetError
from staleloc.sim.targets.sglang import fetch, sources
from staleloc.sim.targets.sglang.fetch import Release, add, installed, resolve

NAME = "sglang-0.5.99-py3-none-any.whl"
MODULE = "sglang/srt/mem_cache/swa_memory_pool.py"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("STALELOC_CACHE", str(folder))
    return folder


@pytest.fixture
def wheel(tmp_path: Path) -> Callable[..., Path]:
    """Write a wheel with these members besides a plain module."""

    def write(*members: tuple[str | zipfile.ZipInfo, str], plain: bool = True) -> Path:
        path = tmp_path / NAME
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            if plain:
                archive.writestr(MODULE, "A = 1\n")
            for name, text in members:
                archive.writestr(name, text)
        return path

    return write


def test_a_local_wheel_is_unpacked_once_and_listed(cache: Path, wheel: Callable[..., Path]) -> None:
    spec = f"sglang@{wheel(('sglang/data.bin', 'no source'))}"
    release = resolve(spec)
    assert (release.name, release.version) == (spec, "0.5.99")
    assert (release.root / MODULE).read_text() == "A = 1\n"
    assert not (release.root / "sglang/data.bin").exists()
    assert resolve(spec) == release == add(spec)
    assert installed() == [release]
    assert sorted(path.name for path in cache.iterdir()) == [release.root.name]


def test_of_extension_modules_only_the_tree_core_is_kept(cache: Path, wheel: Callable[..., Path]) -> None:
    core, other = "sglang/srt/mem_cache/rust_tree_core/mem_cache.so", "sglang/srt/grpc/_core.so"
    release = resolve(f"sglang@{wheel((core, 'core'), (other, 'other'))}")
    assert (release.root / core).read_text() == "core"
    assert not (release.root / other).exists()
    (release.root / core).write_text("changed")
    with pytest.raises(TargetError, match="have changed since they were unpacked"):
        resolve(f"sglang@{cache.parent / NAME}")


@pytest.mark.parametrize(
    "name",
    [
        "../evil.py",
        "sglang/../../evil.py",
        "/evil.py",
        "C:/evil.py",
        "sglang\\..\\evil.py",
        "sglang/srt/../../../evil.py",
    ],
)
def test_a_wheel_that_reaches_outside_is_refused(cache: Path, wheel: Callable[..., Path], name: str) -> None:
    path = wheel((name, "evil"))
    with pytest.raises(TargetError, match=r"holds a file outside its own folder \(.*evil.*\); not unpacked"):
        resolve(f"sglang@{path}")
    assert list(cache.iterdir()) == []
    assert not list(cache.parent.rglob("evil*"))


def test_a_wheel_with_a_link_is_refused(cache: Path, wheel: Callable[..., Path]) -> None:
    link = zipfile.ZipInfo("sglang/link.py")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(TargetError, match=r"holds a link or special file \('sglang/link\.py'\); not unpacked"):
        resolve(f"sglang@{wheel((link, '/etc/passwd'))}")
    assert list(cache.iterdir()) == []


def test_a_wheel_that_unpacks_to_too_much_is_refused(
    cache: Path, wheel: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MAX_FILE_BYTES", 100)
    with pytest.raises(TargetError, match=r"exceeds the size limit \('sglang/big\.py'\)"):
        resolve(f"sglang@{wheel(('sglang/big.py', ' ' * 101))}")
    monkeypatch.setattr(sources, "MAX_ENTRIES", 2)
    with pytest.raises(TargetError, match="holds 3 files, more than 2; not unpacked"):
        resolve(f"sglang@{wheel(('a', ''), ('b', ''))}")
    assert list(cache.iterdir()) == []


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_wheel_with_a_file_twice_is_refused(cache: Path, wheel: Callable[..., Path]) -> None:
    with pytest.raises(TargetError, match=r"holds 'sglang/srt/mem_cache/swa_memory_pool\.py' twice"):
        resolve(f"sglang@{wheel((MODULE, 'B = 2'))}")


def test_what_is_no_wheel_of_sglang_is_refused(cache: Path, tmp_path: Path, wheel: Callable[..., Path]) -> None:
    with pytest.raises(TargetError, match="it is not a wheel of SGLang"):
        resolve(f"sglang@{wheel(plain=False)}")
    broken = tmp_path / NAME
    broken.write_bytes(b"no zip")
    with pytest.raises(TargetError, match="is not a readable wheel: File is not a zip file"):
        resolve(f"sglang@{broken}")
    other = broken.rename(tmp_path / "torch-1.0-py3-none-any.whl")
    with pytest.raises(TargetError, match="is a wheel of torch, not of sglang"):
        resolve(f"sglang@{other}")
    with pytest.raises(TargetError, match="keep the name it was published under"):
        resolve(f"sglang@{other.rename(tmp_path / 'download.whl')}")
    with pytest.raises(TargetError, match=r"there is no wheel .*gone\.whl"):
        resolve(f"sglang@{tmp_path / 'gone.whl'}")


def test_sources_changed_in_the_cache_are_noticed(cache: Path, wheel: Callable[..., Path]) -> None:
    spec = f"sglang@{wheel()}"
    (resolve(spec).root / MODULE).write_text("A = 2\n")
    with pytest.raises(TargetError, match="have changed since they were unpacked; delete that folder"):
        resolve(spec)


def test_an_entry_from_before_the_tree_core_was_kept_is_made_anew(cache: Path, wheel: Callable[..., Path]) -> None:
    core = "sglang/srt/mem_cache/rust_tree_core/"
    spec = f"sglang@{wheel((f'{core}mem_cache.so', 'x'), (f'{core}adapter.py', 'A = 1'))}"
    root = resolve(spec).root
    (root / core / "mem_cache.so").unlink()
    record = json.loads((root / "release.json").read_text())
    del record["kept"]
    (root / "release.json").write_text(json.dumps(record))
    assert (resolve(spec).root / core / "mem_cache.so").is_file()
    assert [path.name for path in cache.iterdir()] == [root.name]


def test_a_wheel_that_never_had_the_tree_core_in_rust_is_unpacked_once(
    cache: Path, wheel: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = f"sglang@{wheel(('sglang/srt/mem_cache/rust_tree_core/adapter.py', 'A = 1'))}"
    resolve(spec)
    monkeypatch.setattr(fetch, "unpack", None)
    resolve(spec)


def test_a_run_that_dies_half_way_leaves_nothing_that_counts(
    cache: Path, wheel: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = f"sglang@{wheel()}"
    leftover = cache / ".tmp-dead" / "release"
    leftover.mkdir(parents=True)
    (leftover / "release.json").write_text("{")
    assert installed() == []

    def die(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(fetch, "tree_digest", die)
        with pytest.raises(KeyboardInterrupt):
            resolve(spec)
    assert [path.name for path in cache.iterdir()] == [".tmp-dead"]
    assert resolve(spec).version == "0.5.99"


def test_runs_that_unpack_at_the_same_time_all_succeed(cache: Path, wheel: Callable[..., Path]) -> None:
    path = wheel(*((f"sglang/m{number}.py", f"A = {number}\n" * 50) for number in range(200)))
    script = "import sys; from staleloc.sim.targets.sglang.fetch import resolve; print(resolve(sys.argv[1]).root)"
    runs = [
        subprocess.Popen([sys.executable, "-c", script, f"sglang@{path}"], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert len({run.communicate(timeout=60)[0] for run in runs}) == 1
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert len(list(cache.iterdir())) == 1


def test_a_download_that_fails_says_what_to_do(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pip(command: list[str], work: Path) -> tuple[int, str]:
        assert "download" in command
        return 1, "WARNING: slow\nERROR: No matching distribution found\n"

    monkeypatch.setattr(fetch, "_run", pip)
    with pytest.raises(TargetError) as caught:
        resolve("sglang==9.9")
    assert str(caught.value) == (
        "sglang==9.9 is not in the cache, or only in part, and could not be downloaded "
        "(ERROR: No matching distribution found); "
        "check the version and the network, or download the wheel yourself and use sglang@FILE.whl"
    )
    assert list(cache.iterdir()) == []


def test_a_wheel_for_any_machine_is_the_second_choice(
    cache: Path, wheel: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, commands = wheel(), []

    def pip(command: list[str], work: Path) -> tuple[int, str]:
        commands.append(command)
        if "--platform" not in command:
            return 1, "ERROR: no wheel for this machine"
        (work / NAME).write_bytes(path.read_bytes())
        return 0, ""

    monkeypatch.setattr(fetch, "_run", pip)
    release = resolve("sglang==0.5.99")
    assert release == Release("sglang==0.5.99", "0.5.99", cache / "sglang-0.5.99")
    assert resolve("sglang==0.5.99") == release
    assert len(commands) == 2


@pytest.mark.parametrize("spec", ["sglang==latest", "sglang==../../etc"])
def test_what_is_no_version_is_refused(cache: Path, spec: str) -> None:
    with pytest.raises(TargetError, match="is not a version; use for example"):
        resolve(spec)


def test_a_cache_that_cannot_be_written_is_one_line(
    tmp_path: Path, wheel: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STALELOC_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(TargetError, match=r"cannot be written .*; set STALELOC_CACHE to a folder"):
        resolve(f"sglang@{wheel()}")


@pytest.mark.parametrize("given", ["", "python", "python/sglang"])
def test_a_checkout_is_found_from_each_of_its_folders(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    package = tmp_path / "repository" / "python" / "sglang"
    (package / "srt" / "mem_cache").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    spec = f"sglang@~/repository/{given}"
    assert resolve(spec) == Release(spec, None, package.parent, cache / ".bytecode")
    (package / "_version.py").write_text("version: str\n__version__ = version = '0.6.0.dev3'\n")
    assert resolve(spec).version == "0.6.0.dev3"
    with pytest.raises(TargetError, match="is a checkout and used in place"):
        add(spec)


def test_a_folder_without_sglang_is_refused(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="holds no sglang/srt/mem_cache; give a checkout"):
        resolve(f"sglang@{tmp_path}")


def test_another_name_is_refused() -> None:
    with pytest.raises(TargetError, match="'vllm==1' names no SGLang"):
        resolve("vllm==1")


def test_a_wheel_that_cannot_be_written_is_no_readable_one(cache: Path, wheel: Callable[..., Path]) -> None:
    """A name that no file system takes, and a file that is also a folder: one line, and nothing stays."""
    for members in ((("sglang/" + "x" * 300 + ".py", ""),), (("sglang/x.py", ""), ("sglang/x.py/y.py", ""))):
        with pytest.raises(TargetError, match="is not a readable wheel"):
            resolve(f"sglang@{wheel(*members)}")
    assert installed() == []
