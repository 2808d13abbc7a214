"""A folder of tapes that grows: together they reach every situation that a random tape has reached so far.

Each run replays them first, keeps tapes that reach new situations, made small, and plays random tapes that no earlier
run has played. ``progress.json`` holds where the next run begins.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jsonschema

from ...models.config import Config
from ..core.divergence import Divergence
from ..core.schema import Schema
from ..core.tape import Tape
from ..findings.files import KeepError, write
from ..findings.finding import our_version
from ..parts.legality import profile_of
from ..run.player import Player, Unplayable
from ..tapes.codec import TapeError, dumps, load, parse_json
from ..tapes.schema import closed
from ..tapes.shrink import shrink
from ..targets.base import Scope, TargetError

__all__ = ["Corpus", "Kind", "kind_of", "minimized"]

FORMAT = "staleloc-corpus"
VERSION = 1

PROGRESS = "progress.json"

CANDIDATES = 300
"""Candidates for the small form of one tape."""

Kind = tuple[str, tuple[str, ...]]
"""Level and features of a tape: situations are counted for each."""


def kind_of(config: Config) -> Kind:
    """Return the level and the features of a tape."""
    return config.level, config.features


@dataclass
class Corpus:
    """The folder.

    Attributes:
        next: scope (in words) and seed -> the number of the next random tape.
        situations: tape file -> situations that it reaches, once it was played.
    """

    folder: Path
    next: dict[tuple[str, int], int] = field(default_factory=dict)
    situations: dict[Path, tuple[Kind, frozenset[str]]] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> Corpus:
        """Return the corpus of a folder, which need not exist yet.

        Raises:
            KeepError: its progress cannot be read.
        """
        file = folder / PROGRESS
        if not file.exists():
            return cls(folder)
        try:
            values: Any = parse_json(file.read_text(encoding="utf-8"))
            jsonschema.validate(values, _SCHEMA)
        except (OSError, ValueError, RecursionError, jsonschema.ValidationError) as error:
            said = " ".join(str(getattr(error, "message", error)).split())[:100]
            raise KeepError(f"{file} cannot be read ({said}); delete it to begin anew") from None
        return cls(folder, {(it["scope"], it["seed"]): it["tape"] for it in values["next"]})

    def files(self) -> list[Path]:
        """Return the tapes, in the order of their names."""
        return [path for path in sorted(self.folder.glob("*.json")) if path.name != PROGRESS]

    def start(self, scope: Scope, seed: int) -> int:
        """Return the number of the first random tape that was not played yet."""
        return self.next.get((str(scope), seed), 0)

    def reached(self, kind: Kind) -> set[str]:
        """Return the situations that the tapes of a level with these features reach."""
        return {name for it, names in self.situations.values() if it == kind for name in names}

    def add(self, tape: Tape, situations: Collection[str], target: str) -> Path:
        """Save a tape that reaches new situations; its name says which.

        Raises:
            KeepError: it cannot be written.
        """
        level, features = kind_of(tape.config)
        first = min(situations)
        path = self.folder / f"{'-'.join([level, *features, first.replace(' ', '-')])}.json"
        known = {"target": target, "situations": sorted(situations), "staleloc": our_version()}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise KeepError(f"{self.folder} cannot be written ({error.strerror or error}); give another path") from None
        write(path, dumps(replace(tape, provenance=known)))
        return path

    def merge(self) -> list[Path]:
        """Remove tapes that this corpus has added and that reach nothing which the others do not; longest first.

        Tapes that a user has put there stay.
        """
        removed = []
        for path in sorted(self.situations, key=lambda it: (-_length(it), it.name)):
            kind, mine = self.situations[path]
            others = {
                name for it, (other, names) in self.situations.items() if it != path and other == kind for name in names
            }
            if mine <= others and _is_ours(path):
                path.unlink(missing_ok=True)
                del self.situations[path]
                removed.append(path)
        return removed

    def save(self) -> None:
        """Write the progress.

        Raises:
            KeepError: it cannot be written.
        """
        if not self.next:
            return
        entries = [{"scope": scope, "seed": seed, "tape": tape} for (scope, seed), tape in sorted(self.next.items())]
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"format": FORMAT, "version": VERSION, "next": entries}, indent=1)
        write(self.folder / PROGRESS, text + "\n")


_NUMBER: Schema = {"type": "integer", "minimum": 0}
_SCHEMA = closed({
    "format": {"const": FORMAT},
    "version": {"const": VERSION},
    "next": {"type": "array", "items": closed({"scope": {"type": "string"}, "seed": _NUMBER, "tape": _NUMBER})},
})  # fmt: skip


def _provenance(path: Path) -> Mapping[str, object]:
    try:
        return load(path).provenance or {}
    except TapeError:
        return {}


def _is_ours(path: Path) -> bool:
    return "situations" in _provenance(path)


def _length(path: Path) -> int:
    try:
        return len(load(path).events)
    except TapeError:
        return 0


def minimized(tape: Tape, wanted: Collection[str], player: Player, is_over: Callable[[], bool]) -> Tape:
    """Return a smaller tape that reaches the same situations and does not diverge.

    Args:
        wanted: the situations.
        is_over: whether the time for this is spent.
    """
    profile = profile_of(tape.config, player.profiles)
    if profile is None:
        return tape
    still = Divergence("leak", "situations", -1, ", ".join(sorted(wanted)))  # stands for: they are all reached

    def judge(candidate: Tape) -> Divergence | None:
        if is_over():
            raise TargetError("the time was spent")
        try:
            diverged = player.play(candidate)
        except Unplayable:
            return None
        return still if diverged is None and set(wanted) <= player.seen.keys() else None

    shrunk = shrink(tape, still, profile, judge, CANDIDATES, player.effect)
    if isinstance(shrunk.ended, KeyboardInterrupt):  # the answer is not read to its end
        raise shrunk.ended
    return shrunk.tape
