"""The bases that a user names: files of accepted findings, targets, and commits of the checkout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ..matrix.measurements import Replayed
from ..matrix.record import counterpart_of
from ..run.player import Player
from ..tapes.scenarios import scenarios
from ..targets.base import TargetError
from ..targets.registry import family_of, release_of
from .accepted import Accepted, Entry, read
from .blame import changed_lines
from .checkout import Subject, archived, commit_of
from .known import BaseTarget, Known, Record

__all__ = ["Bases"]


@dataclass
class Bases:
    """The bases of one run. Use as a context manager, which ends their workers.

    Attributes:
        folder: an empty folder for sources of commits.
    """

    subject: Subject
    folder: Path
    open_player: Callable[[str], Player]

    targets: list[BaseTarget] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)

    def of(self, text: str) -> Known:
        """Return the source of known findings that a text names: a file, a target, or else a ref."""
        path = Path(text).expanduser()
        if path.is_file() and path.suffix == ".json":
            entries = read(path)
            self.entries += entries
            return Accepted(text, entries)
        family = family_of(text)
        if family is not None and family.parse(text) is not None:
            release_of(text)
            return self._add(BaseTarget(text, text, self.open_player))
        commit = commit_of(self.subject, text)
        target = archived(self.subject, commit, self.folder / str(len(self.targets)))
        return self._add(BaseTarget(f"{text} ({commit[:9]})", target, self.open_player))

    def usual(self, shown: Mapping[str, Replayed]) -> tuple[Known, str | None]:
        """Return what is known where the user names no base, and a warning or None: the release that the target is
        judged as, or its public record if it is the target itself or cannot be had.

        Args:
            shown: scenario -> the result of its tape on the target.
        """
        target = self.subject.target
        record = Record(counterpart_of(target, release_of(target), shown, scenarios()), shown, scenarios())
        if record.name == target:
            return record, None
        try:
            release_of(record.name)
        except TargetError as error:
            return record, f"compared with the public record of {record.name} only, not with the release: {error}"
        return self._add(BaseTarget(record.name, record.name, self.open_player)), None

    def _add(self, base: BaseTarget) -> BaseTarget:
        self.targets.append(base)
        return base

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for base in self.targets:
            base.close()

    def changed(self) -> dict[str, set[int]]:
        """Return the lines that differ from the first base that has sources."""
        for base in self.targets:
            if _same_family(base.target, self.subject.target):
                return changed_lines(self.subject.target, base.target)
        return {}


def _same_family(one: str, other: str) -> bool:
    return family_of(one) is family_of(other)
