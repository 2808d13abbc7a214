"""One release of SGLang as sources in a folder, wherever they came from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Release"]


@dataclass(frozen=True)
class Release:
    """Sources of one SGLang.

    Attributes:
        name: as the user named it.
        version: its version, or None where the sources do not say.
        root: the folder that contains the ``sglang`` package.
    """

    name: str
    version: str | None
    root: Path
