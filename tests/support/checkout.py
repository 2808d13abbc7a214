"""A repository whose package folder is a copy of the embedded target, as it was and with a defect."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from staleloc.sim.targets.mutants.transform import builtin_root

__all__ = ["DEFECT", "Repository", "made"]

DEFECT = "        self.pool.register_mapping(mapping)\n"
"""Without this line the pool translates with an old table: an incident is back, and random tapes diverge."""


@dataclass(frozen=True)
class Repository:
    """A git work tree with the target's sources in ``python/cache``."""

    root: Path

    @property
    def package(self) -> Path:
        return self.root / "python" / "cache"

    def git(self, *words: str) -> str:
        name = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        done = subprocess.run(["git", *name, *words], cwd=self.root, check=True, capture_output=True, text=True)
        return done.stdout

    def spoil(self) -> int:
        """Plant the defect and return its line."""
        return self.change(DEFECT, "")

    def change(self, old: str, new: str, name: str = "swa.py") -> int:
        """Replace a text of a file that occurs once, and return its line."""
        file = self.package / name
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1
        file.write_text(text.replace(old, new), encoding="utf-8")
        return text[: text.index(old)].count("\n") + 1


def made(root: Path) -> Repository:
    """Make a repository with one commit."""
    it = Repository(root)
    it.package.mkdir(parents=True)
    for file in builtin_root().glob("*.py"):
        (it.package / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    it.git("init", "--quiet", ".")
    it.git("add", "--all")
    it.git("commit", "--quiet", "--message", "as it was")
    return it
