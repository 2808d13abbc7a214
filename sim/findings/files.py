"""Files that a command writes: each is there in whole or not at all, and one that fails takes no other with it."""

from __future__ import annotations

import fcntl
import itertools
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..targets.base import TargetError

__all__ = ["KeepError", "Writer", "check_file", "check_folder", "read_text", "remove_leftovers", "write"]

MAX_BYTES = 64 << 20
"""Size of the largest file that is read, in bytes."""

_PREFIX, _SUFFIX = ".staleloc-", ".new"
"""How the name of a file begins and ends until it is complete."""


class KeepError(Exception):
    """A file or folder cannot be written; the message is one line."""


class Writer:
    """Writes the outputs of one run, each on its own.

    Attributes:
        failed: one line for each output that could not be written.
    """

    def __init__(self) -> None:
        self.failed: list[str] = []

    def write(self, path: Path | None, text: Callable[[], str]) -> bool:
        """Write a file, if there is a path. Return whether it was written.

        Args:
            text: makes the text. What it raises for users counts as a failure of this output alone.
        """
        if path is None:
            return False
        try:
            write(path, text())
        except KeepError as error:
            self.failed.append(str(error))
            return False
        except TargetError as error:
            self.failed.append(f"{path} was not written: {error}")
            return False
        return True


def write(path: Path, text: str, follow: bool = True) -> None:
    """Write a text file in one step: a reader, or a run after this one died, finds the old file or the new one.

    Args:
        follow: write the file that a link leads to; otherwise the link itself is replaced.

    Raises:
        KeepError: it cannot be written. An old file is then as it was.
    """
    data = text.encode("utf-8", "backslashreplace")
    try:
        there = Path(os.path.realpath(path)) if follow else path
        mode = _mode(there)
        if mode is not None and stat.S_ISCHR(mode):
            with there.open("wb") as device:
                device.write(data)
        else:
            _replace(there, data, mode)
    except (OSError, ValueError) as error:
        raise _cannot(path, error) from None


def _replace(path: Path, data: bytes, mode: int | None) -> None:
    with _beside(path.parent) as (number, new):
        if mode is not None and stat.S_ISREG(mode):
            with suppress(OSError):  # a file system without modes
                os.fchmod(number, stat.S_IMODE(mode))
        with open(number, "wb", closefd=False) as file:
            file.write(data)
        os.fsync(number)
        new.replace(path)
    with suppress(OSError):  # a file system that does not sync folders
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def _beside(folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield a new file in `folder`, as a number and a path. It is removed at the end, unless it was renamed.

    It is locked while it is in use, so that `remove_leftovers` can tell it from the file of a run that died.
    """
    for count in itertools.count():
        new = folder / f"{_PREFIX}{os.getpid()}-{count}{_SUFFIX}"
        try:
            number = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            continue
        try:
            with suppress(OSError):  # a file system without locks, where nothing is ever taken for a leftover
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(number).st_nlink == 0:  # another run took it for a leftover before it was locked
                continue
            try:
                yield number, new
            finally:
                new.unlink(missing_ok=True)
            return
        finally:
            os.close(number)


def remove_leftovers(folder: Path) -> None:
    """Remove incomplete files of runs that died."""
    with suppress(OSError):
        for file in sorted(folder.glob(f"{_PREFIX}*{_SUFFIX}")):
            with suppress(OSError):
                number = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    file.unlink()
                finally:
                    os.close(number)


def check_file(path: Path) -> None:
    """Raise KeepError unless `path` can be written. Leaves no file."""
    try:
        there = Path(os.path.realpath(path))  # where a link leads to, which need not be there yet
        mode = _mode(there)
        if mode is not None:
            if stat.S_ISDIR(mode):
                raise IsADirectoryError("is a directory")
            if stat.S_ISFIFO(mode):
                raise OSError("a pipe: it would wait for a reader")
            if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode)):
                raise OSError("not a regular file")
            if not os.access(there, os.W_OK):
                raise PermissionError("Permission denied")
        if mode is None or stat.S_ISREG(mode):
            with _beside(there.parent):
                pass
            remove_leftovers(there.parent)
    except (OSError, ValueError) as error:
        raise _cannot(path, error) from None


def check_folder(path: Path) -> None:
    """Raise KeepError unless files can be created in `path`, which need not exist yet. Leaves no file."""
    try:
        existing = next(folder for folder in (path, *path.absolute().parents) if _exists(folder))
        if not existing.is_dir():
            raise NotADirectoryError("Not a directory")
        with _beside(existing):
            pass
        remove_leftovers(existing)
    except (OSError, ValueError) as error:
        raise _cannot(path, error) from None


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        KeepError: it is no regular file of UTF-8, cannot be read or is too large.
    """
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        with open(path, "rb", opener=lambda file, flags: os.open(file, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OSError("not a regular file")
            if status.st_size > MAX_BYTES:
                raise OSError(f"{status.st_size} bytes, more than {MAX_BYTES}")
            return file.read(MAX_BYTES).decode("utf-8")
    except OSError as error:
        raise KeepError(f"{path} cannot be read ({error.strerror or error}); give another path") from None
    except ValueError as error:
        raise KeepError(f"{path} cannot be read ({error}); give another path") from None


def _mode(path: Path) -> int | None:
    """The kind and permissions of a file; None if there is none."""
    try:
        return os.lstat(path).st_mode
    except FileNotFoundError:
        return None


def _exists(path: Path) -> bool:
    """Whether something is there, which may be a link to nothing. Raises OSError for a name that no file can have."""
    try:
        return _mode(path) is not None
    except NotADirectoryError:  # something above it is a file
        return False


def _cannot(path: Path, error: OSError | ValueError) -> KeepError:
    why = (error.strerror if isinstance(error, OSError) else None) or error
    return KeepError(f"{os.fspath(path)} cannot be written ({why}); give another path")
