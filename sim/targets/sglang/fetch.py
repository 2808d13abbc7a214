"""Where a release comes from: PyPI by version, a local wheel, or a checkout.

A fetched release is unpacked once into a cache that all runs share. A cache entry appears by a single rename, so it is
complete or absent, even if other runs work on it or die.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from ...core.workspace import Workspace
from ..base import TargetError
from ..family import user_path
from .sources import CORE_FOLDER, Release, tree_digest, unpack

__all__ = ["Release", "add", "cache_folder", "damaged", "files_of", "installed", "resolve"]

OLDEST = Version("0.5.11")
"""0.5.10 and its post release load, but their ``alloc_extend`` refuses requests that fit: it counts tokens, not
pages."""

_PIP = f"{__package__}.pip"
_RECORD = "release.json"
_KEPT = "sources and the tree core in Rust"
_BYTECODE = ".bytecode"
"""Folder of the cache for what Python compiles of checkouts, in which nothing is written."""

_ANY_MACHINE = ("--python-version", "3.11", "--implementation", "cp", "--abi", "cp311",
                "--platform", "manylinux_2_34_x86_64")  # fmt: skip


def cache_folder() -> Path:
    """Where releases are kept: ``STALELOC_CACHE``, or the user's cache folder."""
    return user_path(os.environ.get("STALELOC_CACHE") or platformdirs.user_cache_dir("staleloc"))


def resolve(spec: str) -> Release:
    """The release a target name stands for, fetched if it is not in the cache.

    Args:
        spec: ``sglang==VERSION``, ``sglang@FOLDER`` or ``sglang@FILE.whl``.

    Raises:
        TargetError: it cannot be had; the message says what to do.
    """
    if spec.startswith("sglang=="):
        return _by_version(spec)
    if spec.startswith("sglang@"):
        path = user_path(spec.removeprefix("sglang@"))
        if path.suffix == ".whl":
            return _by_wheel(spec, path)
        root = _checkout_root(path)
        return Release(spec, _version_of(root), root, cache_folder() / _BYTECODE)
    raise TargetError(f"{spec!r} names no SGLang; use sglang==VERSION, sglang@FOLDER or sglang@FILE.whl")


def files_of(spec: str) -> list[Path]:
    """The wheel, or the folder of sources, that is read for a target name; nothing is fetched.

    Raises:
        TargetError: it names the home of a user that does not exist.
    """
    if spec.startswith("sglang=="):
        return [cache_folder() / spec.replace("==", "-", 1)]
    if not spec.startswith("sglang@"):
        return []
    path = user_path(spec.removeprefix("sglang@"))
    if path.suffix == ".whl":
        return [path]
    with suppress(TargetError):  # a folder without a package is refused when it is loaded
        return [_checkout_root(path) / "sglang"]
    return []


def add(spec: str) -> Release:
    """Put a release into the cache now, so that later runs need no network.

    Raises:
        TargetError: it cannot be had, or is a checkout, which is used in place.
    """
    release = resolve(spec)
    if cache_folder() not in release.root.parents:
        raise TargetError(f"{spec} is a checkout and used in place; there is nothing to add")
    return release


def installed() -> list[Release]:
    """The releases in the cache, by version."""
    releases = [
        Release(facts["name"], facts["version"], entry) for entry in _entries() if (facts := _facts(entry)) is not None
    ]
    return sorted(releases, key=lambda release: (Version(release.version or "0"), release.name))


def damaged() -> list[Path]:
    """Entries of the cache that cannot be read, by name."""
    return [entry for entry in _entries() if _facts(entry) is None]


def _entries() -> list[Path]:
    try:
        return sorted(it for it in cache_folder().iterdir() if not it.name.startswith("."))
    except OSError:
        return []


def _facts(entry: Path) -> dict[str, str] | None:
    """What is recorded of a cache entry; None if that cannot be read."""
    try:
        facts = json.loads((entry / _RECORD).read_text(encoding="utf-8"))
        Version(facts["version"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    texts = all(isinstance(facts.get(name), str) for name in ("name", "sources_sha256"))
    return facts if texts else None


def _by_version(spec: str) -> Release:
    wanted = spec.removeprefix("sglang==")
    try:
        version = str(Version(wanted))
    except InvalidVersion:
        raise TargetError(f"{wanted!r} is not a version; use for example sglang==0.5.12") from None
    if Version(version) < OLDEST:
        raise TargetError(f"sglang=={version} is older than {OLDEST}, the first release that can be driven")
    entry = cache_folder() / f"sglang-{version}"
    if not _whole(entry):
        with _workspace() as work:
            wheel = _download(version, work)
            _enter(wheel, entry, f"sglang=={version}", version, work)
    _verify(entry, f"sglang=={version}")
    return Release(f"sglang=={version}", version, entry)


def _by_wheel(spec: str, wheel: Path) -> Release:
    if not wheel.is_file():
        raise TargetError(f"there is no wheel {wheel}")
    try:
        name, parsed, _, _ = parse_wheel_filename(wheel.name)
    except (InvalidWheelFilename, InvalidVersion):
        raise TargetError(f"{wheel.name} is not named like a wheel; keep the name it was published under") from None
    if name != "sglang":
        raise TargetError(f"{wheel.name} is a wheel of {name}, not of sglang")
    entry = cache_folder() / f"wheel-{_sha256(wheel)[:16]}"
    if not _whole(entry):
        with _workspace() as work:
            _enter(wheel, entry, spec, str(parsed), work)
    _verify(entry, spec)
    return Release(spec, str(parsed), entry)


@contextmanager
def _workspace() -> Iterator[Path]:
    """A folder in the cache that is never taken for an entry, locked while its run lives: those of killed runs are
    removed."""
    cache = cache_folder()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        work = Workspace(".tmp-", cache)
    except OSError as error:
        raise TargetError(f"the cache {cache} cannot be written ({error}); set STALELOC_CACHE to a folder") from None
    try:
        yield work.path
    finally:
        work.remove()


def _download(version: str, work: Path) -> Path:
    """The wheel for this machine, or else the one for Linux on x86-64: only its Python sources are used."""
    error = ""
    for choice in ((), _ANY_MACHINE):
        command = [sys.executable, "-X", "utf8", "-P", "-m", _PIP, str(os.getpid()),
                   "download", f"sglang=={version}", "--no-deps", "--only-binary=:all:",
                   "--dest", str(work), "--no-input", "--quiet", "--disable-pip-version-check", "--retries", "1",
                   *choice]  # fmt: skip
        code, log = _run(command, work)
        wheels = list(work.glob("*.whl"))
        if code == 0 and wheels:
            return wheels[0]
        lines = [line.strip() for line in log.splitlines() if line.strip()]
        error = lines[-1] if lines else f"pip ended with {code}"
        if "No module named pip" in error:
            break
    raise TargetError(
        f"sglang=={version} is not in the cache, or only in part, and could not be downloaded ({error}); "
        "check the version and the network, or download the wheel yourself and use sglang@FILE.whl"
    )


def _run(command: list[str], work: Path) -> tuple[int, str]:
    """Exit code and messages of a process that leaves nothing outside `work`, and ends with this one."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, "TMPDIR": str(work)},
        start_new_session=True,
    )
    try:
        _, log = process.communicate()
        return process.returncode, log
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _enter(wheel: Path, entry: Path, name: str, version: str, work: Path) -> None:
    """Unpack beside the cache entry and rename; if another run was faster, its entry stays."""
    staged = work / "release"
    unpack(wheel, staged)
    facts = {"name": name, "version": version, "wheel": wheel.name, "sha256": _sha256(wheel),
             "sources_sha256": tree_digest(staged), "kept": _KEPT}  # fmt: skip
    (staged / _RECORD).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    if entry.exists() and not _whole(entry):
        with suppress(OSError):  # another run is replacing it too
            entry.rename(work / "old")
    try:
        staged.rename(entry)
    except OSError:
        if not entry.is_dir():
            raise


def _whole(entry: Path) -> bool:
    """Whether a cache entry is there and has all that is kept of a wheel today.

    An entry from before extension modules were kept has the tree core's folder and not the core: with it
    a release would go on with its Python core and say so in a log only.
    """
    if not entry.is_dir():
        return False
    core = entry / CORE_FOLDER
    if not core.is_dir() or any(core.glob("*.so")):
        return True
    try:
        return bool(json.loads((entry / _RECORD).read_text(encoding="utf-8")).get("kept") == _KEPT)
    except (OSError, ValueError, AttributeError):
        return True  # not for us to mend: `_verify` says what is wrong


def _verify(entry: Path, name: str) -> None:
    try:
        facts = _facts(entry)
        intact = facts is not None and facts["sources_sha256"] == tree_digest(entry)
    except OSError:
        intact = False
    if not intact:
        raise TargetError(f"the sources of {name} in {entry} have changed since they were unpacked; delete that folder")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checkout_root(path: Path) -> Path:
    """The folder that contains the package: `path`, its ``python`` folder, or its parent."""
    for root in (path, path / "python", path.parent):
        package = root / "sglang"
        if (package / "srt" / "mem_cache").is_dir() and (root != path.parent or package == path):
            return root.absolute()
    raise TargetError(f"{path} holds no sglang/srt/mem_cache; give a checkout, its python folder or the package folder")


def _version_of(root: Path) -> str | None:
    for name in ("_version.py", "version.py"):
        file = root / "sglang" / name
        if not file.is_file():  # also for a pipe, which would wait for a writer
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        found = re.search(r"""^(?:__)?version(?:__)?\s*(?::[^=]*)?=.*?["']([\w.+!-]+)["']""", text, re.MULTILINE)
        if found:
            return found[1]
    return None
