"""Temporary folders of a run. Those of a run that was killed are removed by the next one."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

__all__ = ["Workspace"]

_NEW_SECONDS = 60.0
"""Seconds after which a folder is certainly locked if its run lives."""


class Workspace:
    """A folder that is locked while this process lives. Those of other runs beside it that are not locked are removed.

    Args:
        parent: where it lies; None for the system's folder of temporary files.
        prefix: how its name begins, and no other name there.

    Raises:
        OSError: there can be none.
    """

    def __init__(self, prefix: str, parent: Path | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        self._process = os.getpid()
        self._lock = os.open(self.path, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        for other in self.path.parent.glob(f"{prefix}*"):
            if other != self.path and _abandoned(other):
                shutil.rmtree(other, ignore_errors=True)

    def remove(self) -> None:
        """Remove it, unless this process is a copy of the one that made it."""
        if os.getpid() == self._process:
            shutil.rmtree(self.path, ignore_errors=True)
            with suppress(OSError):
                os.close(self._lock)


def _abandoned(folder: Path) -> bool:
    """Whether the run that made a folder of this user was killed: it is not locked, and not so new that it will be."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            facts = os.fstat(number)
            if facts.st_uid != os.geteuid() or time.time() - facts.st_mtime < _NEW_SECONDS:
                return False
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        finally:
            os.close(number)
    return False
