"""What ``staleloc audit`` does: read, play, take guards away, and say what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from staleloc.sim.audit import html, record, text
from staleloc.sim.audit.changes import changes_of, unmatched
from staleloc.sim.audit.corpus import name_of, tape_of
from staleloc.sim.audit.find import read_program
from staleloc.sim.audit.prove import prove
from staleloc.sim.audit.reach import Budget, Diverged, reach
from staleloc.sim.audit.reasons import reasons_for
from staleloc.sim.audit.sites import map_of
from staleloc.sim.audit.sources import read_tree
from staleloc.sim.audit.verdicts import Audit, rows_of, tried
from staleloc.sim.finding import Finding, Origin
from staleloc.sim.fitting import profile_of
from staleloc.sim.judge import Player
from staleloc.sim.keep import check_apart, check_file, check_folder, save, write
from staleloc.sim.mutate import builtin_root
from staleloc.sim.report import render
from staleloc.sim.shrink import MAX_CANDIDATES, shrink
from staleloc.sim.targets.base import TargetError
from staleloc.sim.targets.registry import parse, select_profiles

__all__ = ["Outputs", "Result", "run"]


@dataclass(frozen=True)
class Outputs:
    """Files to write, and the folder for tapes."""

    json: Path | None
    sarif: Path | None
    html: Path | None
    folder: Path
    prefix: str = ""

    def check(self) -> None:
        """Raise KeepError unless all can be written."""
        check_apart(self.json, self.sarif, self.html)
        for path in (self.json, self.sarif, self.html):
            if path is not None:
                check_file(path)
        check_folder(self.folder)


@dataclass(frozen=True)
class Result:
    """What to print, and what was found."""

    audit: Audit
    text: str
    findings: tuple[str, ...]
    annotations: tuple[str, ...]

    def code(self, strict: bool) -> int:
        """The exit code: 1 if a site is unguarded; with `strict` also if one is unproven, if nothing noticed that a
        guard was gone, or if a tape diverges that no site explains."""
        bad = {"unguarded", "unproven"} if strict else {"unguarded"}
        questions = any(it.stands == "unnoticed" for it in self.audit.guards) or bool(self.audit.unexplained)
        return int(any(row.is_asked and row.verdict in bad for row in self.audit.rows) or (strict and questions))


def run(target: str, budget: Budget, outputs: Outputs, show: Callable[[str], None], only: str = "*") -> Result:
    """Audit a target.

    Args:
        only: which guards are taken away, as patterns for ``path:function``, with commas.
        show: is told what is being done.

    Raises:
        TargetError: it cannot be had, or not be played.
        KeepError: a file cannot be written.
    """
    outputs.check()
    root, package, release = _sources(target)
    show("reading the source")
    reading = read_program(read_tree(root, package))
    found = map_of(reading)
    if parse(target).root is not None and found.unread:  # all files of the embedded target are loaded
        raise TargetError(f"{target}: {found.unread[0].path}: {found.unread[0].reason}")
    if not found.sites:
        raise TargetError(f"{target}: nothing in {found.files} files has to do with the mapping")
    sources = {path: module.source for path, module in reading.program.modules.items()}
    changes = changes_of(reading, found, only)
    lost = unmatched(reading, only)
    if lost:
        raise TargetError(f"no function that was read closely matches {lost!r}; patterns are for PATH:FUNCTION")
    show("playing tapes")
    reached = reach(target, found, changes, sources, budget)
    show(f"taking away {len(changes)} guards, one at a time")
    reasons = reasons_for(target)
    guards = tried(changes, prove(target, changes, sources, reached, budget, reasons.unnoticeable), reasons)
    rows = rows_of(found, {path: it.module for path, it in sources.items()}, reached, guards)
    audit = Audit(target, release, found, reached, tuple(guards), rows)
    show("shrinking what was found")
    findings = _findings(audit, budget.seed, outputs.folder)
    if outputs.json is not None:
        write(outputs.json, json.dumps(record.to_json(audit), indent=1) + "\n")
    if outputs.sarif is not None:
        write(outputs.sarif, json.dumps(record.to_sarif(audit, outputs.prefix), indent=1) + "\n")
    if outputs.html is not None:
        write(outputs.html, html.render(audit))
    notes = text.for_github(audit, outputs.prefix)
    return Result(audit, text.render(audit), tuple(findings), tuple(notes))


def _sources(target: str) -> tuple[Path, str, str | None]:
    """The folder of a target's package, the package's name, and its release."""
    spec = parse(target)
    if spec.family == "builtin":
        return spec.root or builtin_root(), "", None
    from staleloc.sim.targets.sglang.fetch import resolve

    release = resolve(target)
    return release.root / "sglang", "sglang", release.version


def _findings(audit: Audit, seed: int, folder: Path) -> list[str]:
    """Shrink a tape for each site that is unguarded, and for each cache, save it, and tell it."""
    shown = {(it.scope, it.tape): it for row in audit.rows for it in row.diverged}
    if not shown:
        return []
    origin = Origin(audit.target, audit.release, seed=seed)
    with Player(audit.target) as player:
        return [_told(it, player, origin, folder) for it in shown.values()]


def _told(diverged: Diverged, player: Player, origin: Origin, folder: Path) -> str:
    profiles = diverged.scope.of(select_profiles(player.profiles, parse(origin.target)))
    tape = tape_of(profiles, origin.seed or 0, diverged.tape)
    profile = profile_of(tape.config, profiles)
    assert profile is not None
    divergence = player.play(tape)
    if divergence is None:
        return f"{name_of(diverged.tape)} at {diverged.scope} did not diverge when it was played again"
    shrunk = shrink(tape, divergence, profile, player.play, MAX_CANDIDATES, player.effect)
    drawn = replace(origin, scope=diverged.scope, index=diverged.tape)
    if diverged.tape < 0:
        drawn = replace(origin, scope=diverged.scope, seed=None, tape=name_of(diverged.tape).rpartition(" ")[2])
    finding = Finding(drawn, shrunk.tape, shrunk.divergence, shrunk, False)
    return render(finding, str(save(finding, folder)))
