"""The sources of a release in a folder: what is installed, a checkout, or a wheel that is unpacked with care.

Nothing of a wheel lands outside the folder, no links, no bombs.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import shutil
import stat
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..base import TargetError

__all__ = ["CORE_FOLDER", "Release", "find_release", "tree_digest", "unpack"]


MAX_ENTRIES = 50_000
MAX_FILE_BYTES = 64 << 20
MAX_TOTAL_BYTES = 1 << 30

_CHUNK = 1 << 20
_KEPT = (".py",)
CORE_FOLDER = "sglang/srt/mem_cache/rust_tree_core/"
"""Where releases from 0.5.19 have a tree core in Rust, the one extension module that is kept."""


@dataclass(frozen=True)
class Release:
    """Sources of one SGLang.

    Attributes:
        name: as the user named it.
        version: its version, or None where the sources do not say.
        root: the folder that contains the ``sglang`` package.
        bytecode: the folder for what Python compiles of them; None for beside them.
    """

    name: str
    version: str | None
    root: Path
    bytecode: Path | None = None


def unpack(wheel: Path, folder: Path) -> None:
    """Unpack the ``sglang`` package's Python sources of a wheel into `folder`, and its tree core in Rust.

    The whole archive is examined, also members that are not unpacked.

    Raises:
        TargetError: not a wheel of SGLang, or one that is not safe to unpack.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = archive.infolist()
            if len(members) > MAX_ENTRIES:
                raise TargetError(f"{wheel.name} holds {len(members)} files, more than {MAX_ENTRIES}; not unpacked")
            for member in members:
                _refuse(wheel, member)
            room = MAX_TOTAL_BYTES
            for member in members:
                if _kept(member.filename):
                    room -= _copy(wheel, archive, member, folder, room)
    except TargetError:
        raise
    except Exception as error:  # a corrupt archive raises almost anything: of zlib, struct, lzma and zipfile itself
        said = " ".join(str(error).split()) or type(error).__name__
        raise TargetError(f"{wheel.name} is not a readable wheel: {said}") from None
    if not (folder / "sglang" / "srt" / "mem_cache").is_dir():
        raise TargetError(f"{wheel.name} has no sglang/srt/mem_cache; it is not a wheel of SGLang")


def _kept(name: str) -> bool:
    return name.startswith("sglang/") and (
        name.endswith(_KEPT) or (name.startswith(CORE_FOLDER) and name.endswith(".so"))
    )


def _refuse(wheel: Path, member: zipfile.ZipInfo) -> None:
    name = member.filename
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or not name:
        raise TargetError(f"{wheel.name} holds a file outside its own folder ({name!r}); not unpacked")
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise TargetError(f"{wheel.name} holds a link or special file ({name!r}); not unpacked")


def _copy(wheel: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path, room: int) -> int:
    """Copy one member and return its size; the archive's own idea of sizes is not trusted."""
    target = folder / member.filename
    target.parent.mkdir(parents=True, exist_ok=True)
    size = 0
    try:
        with archive.open(member) as source, target.open("xb") as sink:
            while chunk := source.read(_CHUNK):
                size += len(chunk)
                if size > min(room, MAX_FILE_BYTES):
                    raise TargetError(f"{wheel.name} exceeds the size limit ({member.filename!r}); not unpacked")
                sink.write(chunk)
    except FileExistsError:
        raise TargetError(f"{wheel.name} holds {member.filename!r} twice; not unpacked") from None
    return size


def tree_digest(folder: Path) -> str:
    """SHA-256 over names and contents of every source file and extension module below `folder`."""
    digest = hashlib.sha256()
    for path in sorted((*folder.rglob("*.py"), *folder.rglob("*.so"))):
        name = path.relative_to(folder).as_posix().encode()
        content = path.read_bytes()
        digest.update(b"%d %s %d " % (len(name), name, len(content)))
        digest.update(content)
    return digest.hexdigest()


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
    except Exception as error:  # see `unpack`
        raise TargetError(f"{wheel} cannot be read as a wheel ({error})") from None
    return root
