"""One run a file: two that measure into the same one would each throw away what the other did."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..findings.files import KeepError

__all__ = ["alone"]


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep other runs off a file, by a lock on another one beside it.

    The system takes the lock back when the process ends, however it does: what a killed run leaves blocks nobody.

    Raises:
        KeepError: another run has it, or there can be no file beside it.
    """
    beside = path.resolve().with_name(f".{path.resolve().name}.staleloc-lock")
    try:
        held = _locked(beside)
    except BlockingIOError:
        raise KeepError(f"another run measures into {path}; wait for it, or give another path") from None
    except OSError as error:
        raise KeepError(f"{beside} cannot be locked ({error.strerror or error})") from None
    try:
        yield
    finally:
        beside.unlink(missing_ok=True)
        os.close(held)


def _locked(path: Path) -> int:
    """A descriptor with a lock on the file of that name, and not on one that its last owner has just removed."""
    while True:
        held = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(path, held):
                return held
        except OSError:
            os.close(held)
            raise
        os.close(held)


def _is_at(path: Path, held: int) -> bool:
    try:
        return os.path.samestat(os.fstat(held), os.stat(path))
    except FileNotFoundError:
        return False
