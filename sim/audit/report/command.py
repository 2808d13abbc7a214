"""The command ``staleloc audit``: reads the source, plays tapes, removes guards, and shrinks, saves and reports
failures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...findings.files import Writer
from ...findings.finding import Finding, Origin
from ...findings.saves import Saves
from ...findings.text import render
from ...parts.legality import profile_of
from ...run.player import Player
from ...run.process import WorkerProcess
from ...tapes.shrink import MAX_CANDIDATES, Shrunk, shrink
from ...targets.base import TargetError
from ...targets.registry import parse, select_profiles
from ..guards import changes_of, unmatched
from ..play.corpus import name_of, tape_of
from ..play.coverage import AuditBudget, FailingTape, measure_coverage
from ..play.mutation import prove
from ..source.program import read_tree
from ..source.sites import map_of, read_program
from .formats import to_github, to_html, to_json, to_sarif, to_text
from .verdicts import Audit, Row, reasons_for, rows_of, tried

__all__ = ["AuditOutputs", "run", "see"]


@dataclass(frozen=True)
class _Shown:
    """A tape and its shrunk form; None if it does not diverge when it is played again."""

    diverged: FailingTape
    shrunk: Shrunk | None

    @property
    def size(self) -> tuple[bool, int]:
        return self.shrunk is None, len(self.shrunk.tape.events) if self.shrunk else 0


def see(found: Sequence[FailingTape], target: str, origin: Origin, saves: Saves) -> list[Finding]:
    """Save the failing tapes as they are: to remove guards, and to shrink, takes minutes."""
    if not found:
        return []
    with WorkerProcess(target) as worker:
        profiles = select_profiles(worker.profiles, parse(target))
    seen = []
    for it in found:
        tape = tape_of(it.scope.of(profiles), origin.seed or 0, it.tape)
        seen.append(Finding(_origin_of(it, origin), tape, it.divergence))
        saves.see(seen[-1])
    return seen


def shown(audit: Audit, origin: Origin, saves: Saves) -> tuple[Audit, list[str]]:
    """Keep for each unguarded site and each cache the tape that is shortest after shrinking.

    Returns:
        The audit with no other tapes in its rows, and the report of each tape, the shortest first.
    """
    diverged = {it.name: it for row in audit.rows for it in row.diverged}
    if not diverged:
        return audit, []
    seed = origin.seed or 0
    with Player(audit.target) as player:
        tapes = {name: _Shown(it, _shrunk(it, player, audit.target, seed)) for name, it in diverged.items()}
    audit = replace(audit, rows=tuple(_chosen(row, tapes) for row in audit.rows))
    chosen = {it.name for row in audit.rows for it in row.diverged}
    told = sorted((it for name, it in tapes.items() if name in chosen), key=lambda it: it.size)
    return audit, [_told(it, origin, saves) for it in told]


def _shrunk(diverged: FailingTape, player: Player, target: str, seed: int) -> Shrunk | None:
    profiles = diverged.scope.of(select_profiles(player.profiles, parse(target)))
    tape = tape_of(profiles, seed, diverged.tape)
    profile = profile_of(tape.config, profiles)
    assert profile is not None
    divergence = player.play(tape)
    if divergence is None:
        return None
    return shrink(tape, divergence, profile, player.play, MAX_CANDIDATES, player.effect)


def _chosen(row: Row, tapes: Mapping[str, _Shown]) -> Row:
    """Return a row with one tape for each cache."""
    best: dict[int, _Shown] = {}
    for it in sorted((tapes[it.name] for it in row.diverged), key=lambda it: it.size):
        for site, cache in it.diverged.group.blamed:
            if site == row.number:
                best.setdefault(cache, it)
    return replace(row, diverged=tuple({it.diverged.name: it.diverged for it in best.values()}.values()))


def _origin_of(diverged: FailingTape, origin: Origin) -> Origin:
    if diverged.tape < 0:
        return replace(origin, scope=diverged.scope, seed=None, tape=name_of(diverged.tape).rpartition(" ")[2])
    return replace(origin, scope=diverged.scope, index=diverged.tape)


def _told(it: _Shown, origin: Origin, saves: Saves) -> str:
    diverged = it.diverged
    if it.shrunk is None:
        return f"{diverged.name} did not diverge when it was played again"
    finding = Finding(_origin_of(diverged, origin), it.shrunk.tape, it.shrunk.divergence, it.shrunk, False)
    saved = saves.keep(finding)
    return render(finding, None if saved is None else str(saved))


@dataclass(frozen=True)
class AuditOutputs:
    """Files to write, and what annotations say before the paths of the target's files."""

    json: Path | None
    sarif: Path | None
    html: Path | None
    prefix: str = ""

    def write(self, audit: Audit, writer: Writer) -> None:
        """Write all files."""
        writer.write(self.json, lambda: json.dumps(to_json(audit), indent=1) + "\n")
        writer.write(self.sarif, lambda: json.dumps(to_sarif(audit, self.prefix), indent=1) + "\n")
        writer.write(self.html, lambda: to_html(audit))


@dataclass(frozen=True)
class Result:
    """The texts to print, and the audit."""

    audit: Audit
    text: str
    findings: tuple[str, ...]
    annotations: tuple[str, ...]

    def code(self, strict: bool) -> int:
        """Return the exit code: 1 if a site is unguarded; with `strict` also if a site is unproven, no tape missed a
        removed guard, or a tape diverges that no site explains."""
        bad = {"unguarded", "unproven"} if strict else {"unguarded"}
        questions = any(it.stands == "unnoticed" for it in self.audit.guards) or bool(self.audit.unexplained)
        return int(any(row.is_asked and row.verdict in bad for row in self.audit.rows) or (strict and questions))


def run(
    target: str, budget: AuditBudget, saves: Saves, show: Callable[[str], None], only: str = "*", prefix: str = ""
) -> Result:
    """Audit a target.

    Args:
        saves: gets the tapes, as soon as they are seen.
        show: is called with the stage of the audit.
        only: the guards to remove, as patterns for ``path:function``, with commas.
        prefix: see `AuditOutputs`.

    Raises:
        TargetError: the target cannot be fetched or played.
    """
    spec = parse(target)
    tree = spec.family.sources(spec)
    show("reading the source")
    reading = read_program(read_tree(tree.root, tree.package), spec.family.mapping)
    found = map_of(reading)
    if spec.root is not None and found.unread:  # all files of the embedded target are loaded
        raise TargetError(f"{target}: {found.unread[0].path}: {found.unread[0].reason}")
    if not found.sites:
        raise TargetError(f"{target}: no use of the mapping in {found.files} files")
    sources = {path: module.source for path, module in reading.program.modules.items()}
    changes = changes_of(reading, found, only)
    lost = unmatched(reading, only)
    if lost is not None:
        raise TargetError(f"no function with code on the mapping matches {lost!r}; a pattern is PATH:FUNCTION")
    show("playing tapes")
    coverage = measure_coverage(target, found, changes, sources, budget)
    origin = Origin(target, tree.release, seed=budget.seed)
    seen = see(coverage.failing_tapes, target, origin, saves)
    show(f"removing {len(changes)} guards, one at a time")
    reasons = reasons_for(target)
    guards = tried(changes, prove(target, changes, sources, coverage, budget, reasons.unnoticeable), reasons)
    rows = rows_of(found, {path: it.module for path, it in sources.items()}, coverage, guards)
    audit = Audit(target, tree.release, found, coverage, tuple(guards), rows)
    show("shrinking what was found")
    audit, findings = shown(audit, origin, saves)
    for it in seen:
        saves.drop(it)
    return Result(audit, to_text(audit), tuple(findings), tuple(to_github(audit, prefix)))
