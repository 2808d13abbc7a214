"""A release that a person has at hand: a wheel, an unpacked wheel, a checkout, or what is installed.

It comes along inside stand-alone scripts.
"""

from __future__ import annotations

import atexit
import importlib.util
import shutil
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..base import TargetError
from .sources import Release
from .target import SglangTarget, load

__all__ = ["find_release", "load_release"]


def load_release(arguments: Sequence[str], mutated: Mapping[str, str]) -> SglangTarget:
    """The release that the first argument names, or the one that is installed, behind our adapter.

    Its tree, allocator, pools and host tier are imported for real; everything else it names is a stub that fails when
    used, so that a CPU and torch are enough.

    Args:
        mutated: sources by module that are taken in place of the release's own.

    Raises:
        TargetError: it is not there, or does not fit the adapter.
    """
    release = Release("this release", None, find_release(arguments[0] if arguments else None))
    return load(release, (lambda module, source: mutated.get(module, source)) if mutated else None)


def find_release(path: str | None) -> Path:
    """The folder that holds the ``sglang`` package.

    Raises:
        TargetError: it is not there.
    """
    root = _installed() if path is None else _unpacked(Path(path)) if path.endswith(".whl") else Path(path)
    root = next((folder for folder in (root, root / "python") if (folder / "sglang").is_dir()), root)
    if not (root / "sglang" / "srt" / "mem_cache").is_dir():
        raise TargetError(f"{path or root} holds no sglang/srt/mem_cache")
    return root


def _installed() -> Path:
    spec = importlib.util.find_spec("sglang")
    if spec is None or not spec.submodule_search_locations:
        raise TargetError("sglang is not installed; give the path of a wheel, of an unpacked wheel or of a checkout")
    return Path(next(iter(spec.submodule_search_locations))).parent


def _unpacked(wheel: Path) -> Path:
    """A new folder with the sources of a wheel and its tree core in Rust."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            root = Path(tempfile.mkdtemp(prefix="sglang-"))
            atexit.register(shutil.rmtree, root, ignore_errors=True)
            names = [name for name in archive.namelist() if name.endswith(".py") or "/rust_tree_core/" in name]
            archive.extractall(root, names)
    except (OSError, zipfile.BadZipFile) as error:
        raise TargetError(f"{wheel} cannot be read as a wheel ({error})") from None
    return root
