"""The folder of a run's findings: each is on disk as soon as it is seen, and replaced when it is shrunk."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from ...models.config import LEVELS
from ..core.divergence import CLASSES
from ..tapes.codec import dumps
from .files import KeepError, Writer, write
from .finding import Finding

__all__ = ["Saves", "is_saved_name"]

_UNSHRUNK = "-unshrunk"

_SAVED = re.compile(rf".*-({'|'.join(map(re.escape, CLASSES))})(-in-[\w.]+|{_UNSHRUNK})?\.json", re.ASCII)


def is_saved_name(name: str) -> bool:
    """Whether a finding may be saved in a file of this name."""
    return _SAVED.fullmatch(name) is not None


class Saves:
    """Writes findings into a folder, which is created with the first one. Any thread may use it, one at a time.

    A finding that was seen is written under a name that ends with ``-unshrunk``. This file goes when the minimal tape
    is written, or when the finding turns out to be another one again. A run that is killed leaves it.

    Args:
        folder: where they go; None for nowhere.
        writer: gets what cannot be written.
    """

    def __init__(self, folder: Path | None = None, writer: Writer | None = None) -> None:
        self._folder = folder
        self._writer = writer or Writer()
        self._seen: dict[tuple[object, ...], Path] = {}
        self._created = False

    def see(self, finding: Finding) -> None:
        """Write a finding as it was seen, unshrunk."""
        path = self._write(finding, _UNSHRUNK)
        if path is not None:
            self._seen[_key(finding)] = path

    def keep(self, finding: Finding) -> Path | None:
        """Write a finding in place of what was seen of it; return its path, or None if it is not saved."""
        path = self._write(finding)
        seen = self._seen.pop(_key(finding), None)
        if path is not None and seen is not None:
            seen.unlink(missing_ok=True)
        return path

    def drop(self, finding: Finding) -> None:
        """Remove what was seen of a finding that is not one of its own. One that was kept is left alone."""
        seen = self._seen.pop(_key(finding), None)
        if seen is None:
            return
        seen.unlink(missing_ok=True)
        if self._created:
            with suppress(OSError):  # it holds other findings
                seen.parent.rmdir()

    def _write(self, finding: Finding, mark: str = "") -> Path | None:
        if self._folder is None:
            return None
        path = self._folder / f"{_name(finding)}{mark}.json"
        try:
            if not self._folder.exists():
                self._folder.mkdir(parents=True)
                self._created = True
            write(path, dumps(finding.documented()), follow=False)
        except OSError as error:
            self._fail(f"{self._folder} cannot be written ({error.strerror or error}); give another path")
        except KeepError as error:
            self._fail(str(error))
        else:
            return path
        return None

    def _fail(self, line: str) -> None:
        if line not in self._writer.failed:
            self._writer.failed.append(line)


def _key(finding: Finding) -> tuple[object, ...]:
    """What a finding is known by from when it is seen until it is kept: its tape, as it was drawn or named."""
    return finding.origin.scope, finding.origin.index, finding.origin.tape


def _name(finding: Finding) -> str:
    """The name of a finding's file, without its end; the same for the same finding."""
    origin = finding.origin
    parts = [origin.target]
    if origin.mutant is not None:
        parts.append(origin.mutant)
    if origin.scope.level != LEVELS[0]:
        parts += [origin.scope.level, *origin.scope.features]
    drawn = [origin.tape] if origin.tape is not None else [f"seed{origin.seed}", f"tape{origin.index}"]
    parts += [*drawn, finding.cause or finding.divergence.kind]
    return "-".join(map(_plain, parts))


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-._")[-80:]
