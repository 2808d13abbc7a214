"""The tapes that an audit shows of unguarded sites: shrunk, saved and told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ...findings.files import save
from ...findings.finding import Finding, Origin
from ...findings.text import render
from ...parts.adapt import profile_of
from ...run.player import Player
from ...tapes.shrink import MAX_CANDIDATES, Shrunk, shrink
from ...targets.registry import parse, select_profiles
from ..play.corpus import name_of, tape_of
from ..play.coverage import Diverged
from .verdicts import Audit, Row

__all__ = ["shown"]


@dataclass(frozen=True)
class _Shown:
    """A tape, and what it shrinks to; None if it does not diverge when it is played again."""

    diverged: Diverged
    shrunk: Shrunk | None

    @property
    def size(self) -> tuple[bool, int]:
        return self.shrunk is None, len(self.shrunk.tape.events) if self.shrunk else 0


def shown(audit: Audit, seed: int, folder: Path) -> tuple[Audit, list[str]]:
    """Keep, for each site that is unguarded and each cache, the tape that is the shortest once it is shrunk.

    Returns:
        The audit with no other tapes in its rows, and what to tell of each, the shortest first.
    """
    diverged = {it.name: it for row in audit.rows for it in row.diverged}
    if not diverged:
        return audit, []
    with Player(audit.target) as player:
        tapes = {name: _Shown(it, _shrunk(it, player, audit.target, seed)) for name, it in diverged.items()}
    audit = replace(audit, rows=tuple(_chosen(row, tapes) for row in audit.rows))
    chosen = {it.name for row in audit.rows for it in row.diverged}
    origin = Origin(audit.target, audit.release, seed=seed)
    told = sorted((it for name, it in tapes.items() if name in chosen), key=lambda it: it.size)
    return audit, [_told(it, origin, folder) for it in told]


def _shrunk(diverged: Diverged, player: Player, target: str, seed: int) -> Shrunk | None:
    profiles = diverged.scope.of(select_profiles(player.profiles, parse(target)))
    tape = tape_of(profiles, seed, diverged.tape)
    profile = profile_of(tape.config, profiles)
    assert profile is not None
    divergence = player.play(tape)
    if divergence is None:
        return None
    return shrink(tape, divergence, profile, player.play, MAX_CANDIDATES, player.effect)


def _chosen(row: Row, tapes: Mapping[str, _Shown]) -> Row:
    """A row with one tape for each cache."""
    best: dict[int, _Shown] = {}
    for it in sorted((tapes[it.name] for it in row.diverged), key=lambda it: it.size):
        for site, cache in it.diverged.way.blamed:
            if site == row.number:
                best.setdefault(cache, it)
    return replace(row, diverged=tuple({it.diverged.name: it.diverged for it in best.values()}.values()))


def _told(it: _Shown, origin: Origin, folder: Path) -> str:
    diverged = it.diverged
    if it.shrunk is None:
        return f"{diverged.name} did not diverge when it was played again"
    drawn = replace(origin, scope=diverged.scope, index=diverged.tape)
    if diverged.tape < 0:
        drawn = replace(origin, scope=diverged.scope, seed=None, tape=name_of(diverged.tape).rpartition(" ")[2])
    finding = Finding(drawn, it.shrunk.tape, it.shrunk.divergence, it.shrunk, False)
    return render(finding, str(save(finding, folder)))
