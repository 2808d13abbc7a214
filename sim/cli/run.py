"""What ``staleloc fuzz`` and ``staleloc replay`` print and leave behind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ...models.config import LEVELS
from ..findings import search as fuzzing
from ..findings.files import Writer
from ..findings.finding import Finding, Origin
from ..findings.regression import regression_test
from ..findings.saves import Saves
from ..findings.summary import Summary
from ..findings.text import render
from ..gate.known_findings import check_bases, split
from ..parts.hooks import DeclaredError, declared
from ..run import player as replaying
from ..run.campaign import Budget
from ..run.player import Unplayable
from ..run.progress import progress
from ..targets.base import Scope
from ..targets.registry import parse, release_of
from .text import finish, say, warn

__all__ = ["Outputs", "fuzz", "replay"]


@dataclass(frozen=True)
class Outputs:
    """Files a command was asked to write."""

    json: Path | None
    repro: Path | None
    folder: Path | None
    regression: Path | None = None

    def write(self, summary: Summary, writer: Writer) -> None:
        """Write the summary, and the script of the first finding."""
        writer.write(self.json, lambda: json.dumps(summary.to_json(), indent=1) + "\n")
        if self.repro is not None and not summary.findings:
            say(f"{self.repro} was not written: no divergence was found")
        elif self.repro is not None:
            from ..findings.script.script import script

            if writer.write(self.repro, lambda: script(summary.findings[0])):
                say(f"wrote {self.repro}, which shows the first divergence without staleloc")


def _check_declared(scope: Scope) -> None:
    """Raise DeclaredError if a file declares events, and none for the tapes of this scope."""
    if not declared() or declared(scope.level):
        return
    if scope == Scope():
        raise DeclaredError("declared events are of the engine level; add --level engine")
    raise DeclaredError(f"declared events are of the allocator level; leave out {' '.join(scope.options)}")


def fuzz(origin: Origin, budget: Budget, workers: int, outputs: Outputs, bases: Sequence[str] = ()) -> int:
    """Run the campaign that `origin` says and report; the exit code.

    Args:
        bases: refs, targets and files of accepted findings; what they show is known and counts for nothing.
    """
    _check_declared(origin.scope)
    check_bases(origin.target, bases)
    origin = replace(origin, release=release_of(origin.target))
    writer = Writer()
    with progress() as show:
        outcome = fuzzing.find(origin, budget, workers, show, Saves(outputs.folder, writer))
    results = outcome.results
    known = split(origin.target, bases, outcome.findings)
    for finding, path, seconds in zip(outcome.findings, outcome.saved, outcome.shrink_seconds, strict=True):
        _report(finding, path, seconds)
    _report_known(outcome.findings, known)
    summary = Summary(
        target=origin.target,
        release=origin.release,
        mutant=origin.mutant,
        seed=origin.seed,
        findings=outcome.findings,
        tapes=results.tapes,
        events=results.events,
        skipped=results.skipped,
        seconds=results.seconds,
        profiles=results.profiles,
        seen=results.seen,
        diverged=results.diverged,
        interrupted=results.interrupted,
    )
    say(summary.text(), newline=False)
    for note in results.notes:
        warn(note)
    outputs.write(summary, writer)
    return finish(1 if None in known else 2 if results.interrupted else 0, writer.failed)


def replay(name: str, target: str | None, mutant: str | None, times: int, outputs: Outputs) -> int:
    """Play a tape and report; the exit code."""
    tape = replaying.find_tape(name)
    if target is None:
        target, known = replaying.origin_of(tape, name)
        mutant = mutant or known
    parse(target)  # here, since a worker takes longer to say that there is no such target
    release = release_of(target)
    try:
        played = replaying.replay(tape, target, mutant, times)
    except Unplayable as error:
        if not replaying.is_scenario(name):
            raise
        raise Unplayable(f"the scenario does not apply to {target}: {error}") from None
    for note in played.notes:
        say(f"{name} on {target}: {note}")
    findings = []
    if played.divergence is not None:
        origin = Origin(target, release, mutant, tape=name)
        findings.append(Finding(origin, played.tape, played.divergence))
        _report(findings[0])
        if played.skipped:
            say(f"{played.skipped // times} of the events up to the divergence did not apply and were skipped")
    else:
        defect = f" with mutant {mutant}" if mutant else ""
        say(f"no divergence: {len(tape.events)} events of {name} on {target}{defect}{_applied(played, times)}")
    if times > 1:
        same = "verdicts equal" if len(played.verdicts) == 1 else "verdicts unequal"
        counts = ", ".join(f"{count} {it.kind if it else 'silent'}" for it, count in played.verdicts.most_common())
        say(f"{same}: {times} replays, {counts}")
    writer = Writer()
    module = partial(regression_test, name, played.tape, played.divergence, target, mutant)
    if writer.write(outputs.regression, module):
        say(f"wrote {outputs.regression}, a test that plays this tape")
    outputs.write(
        Summary(
            target=target,
            release=release,
            mutant=mutant,
            seed=None,
            findings=findings,
            tapes=times,
            events=played.events,
            skipped=played.skipped,
            seconds=played.seconds,
            profiles=Scope(tape.config.level, tape.config.features).of(played.profiles),
            seen=played.seen,
            diverged=times - played.verdicts[None],
        ),
        writer,
    )
    return finish(1 if findings else 0, writer.failed)


def _applied(played: replaying.Replayed, times: int) -> str:
    """How many events did what they say, of a tape of whole requests, whose events may not apply."""
    if played.tape.config.level == LEVELS[0]:
        return ""
    skipped = played.skipped // times
    applied = played.events // times - skipped
    return f" ({applied} applied, {skipped} skipped)" if applied else " (none applied: nothing was played)"


def _report_known(findings: Sequence[Finding], known: Sequence[str | None]) -> None:
    for finding, why in zip(findings, known, strict=True):
        if why is not None:
            say(f"known: tape {finding.origin.index}, {finding.divergence.kind}: {why}")


def _report(finding: Finding, saved: Path | None = None, seconds: float | None = None) -> None:
    first, _, rest = render(finding, None if saved is None else str(saved), seconds).partition("\n")
    say(first, bold=True)
    say(rest)
