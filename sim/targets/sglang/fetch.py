from dataclasses import dataclass
from pathlib import Path
@dataclass(frozen=True)
class Release:
    name: str
    version: str | None
    root: Path
