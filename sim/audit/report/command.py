"""What ``staleloc audit`` does: read, play, take guards away, and say what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...findings.files import check_apart, check_file, check_folder, write
from ...targets.base import TargetError
from ...targets.registry import parse
from ..guards.changes import changes_of, unmatched
from ..play.coverage import Budget, reach
from ..play.mutation import prove
from ..source.find import read_program
from ..source.sites import map_of
from ..source.sources import read_tree
from . import html, record, text
from .reasons import reasons_for
from .shown import shown
from .verdicts import Audit, rows_of, tried

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
    spec = parse(target)
    tree = spec.family.sources(spec)
    show("reading the source")
    reading = read_program(read_tree(tree.root, tree.package), spec.family.mapping)
    found = map_of(reading)
    if spec.root is not None and found.unread:  # all files of the embedded target are loaded
        raise TargetError(f"{target}: {found.unread[0].path}: {found.unread[0].reason}")
    if not found.sites:
        raise TargetError(f"{target}: nothing in {found.files} files has to do with the mapping")
    sources = {path: module.source for path, module in reading.program.modules.items()}
    changes = changes_of(reading, found, only)
    lost = unmatched(reading, only)
    if lost is not None:
        raise TargetError(f"no function that was read closely matches {lost!r}; patterns are for PATH:FUNCTION")
    show("playing tapes")
    reached = reach(target, found, changes, sources, budget)
    show(f"taking away {len(changes)} guards, one at a time")
    reasons = reasons_for(target)
    guards = tried(changes, prove(target, changes, sources, reached, budget, reasons.unnoticeable), reasons)
    rows = rows_of(found, {path: it.module for path, it in sources.items()}, reached, guards)
    audit = Audit(target, tree.release, found, reached, tuple(guards), rows)
    show("shrinking what was found")
    audit, findings = shown(audit, budget.seed, outputs.folder)
    if outputs.json is not None:
        write(outputs.json, json.dumps(record.to_json(audit), indent=1) + "\n")
    if outputs.sarif is not None:
        write(outputs.sarif, json.dumps(record.to_sarif(audit, outputs.prefix), indent=1) + "\n")
    if outputs.html is not None:
        write(outputs.html, html.render(audit))
    notes = text.for_github(audit, outputs.prefix)
    return Result(audit, text.render(audit), tuple(findings), tuple(notes))
