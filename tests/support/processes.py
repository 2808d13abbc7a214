"""What tests ask of a process that is not theirs to wait for."""

from __future__ import annotations

import time
from pathlib import Path

__all__ = ["ended"]


def ended(pid: int) -> bool:
    """Whether a process ends within some seconds."""
    for _ in range(400):
        try:
            if Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False
