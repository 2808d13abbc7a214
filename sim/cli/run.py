"""What ``staleloc fuzz`` and ``staleloc replay`` print and leave behind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...models.config import LEVELS
from ..findings import search as fuzzing
from ..findings.files import check_outputs, save, write
from ..findings.finding import Finding, Origin
from ..findings.regression import regression_test
from ..findings.summary import Summary
from ..findings.text import render
from ..gate.known_findings import check_bases, split
from ..parts.hooks import DeclaredError, declared
from ..run import player as replaying
from ..run.campaign import Budget
from ..run.player import Unplayable
from ..run.progress import progress
from ..targets.base import Scope
from ..targets.registry import release_of
from .text import say, warn

__all__ = ["Outputs", "fuzz", "replay"]


@dataclass(frozen=True)
class Outputs:
    """Files a command was asked to write."""

    json: Path | None
    repro: Path | None
    folder: Path | None
    regression: Path | None = None

    def check(self) -> None:
        """Raise KeepError unless all can be written."""
        check_outputs(self.json, self.repro, self.regression, folder=self.folder)

    def write(self, summary: Summary) -> None:
        """Write the summary, and the script of the first finding."""
        if self.json is not None:
            write(self.json, json.dumps(summary.to_json(), indent=1) + "\n")
        if self.repro is not None:
            say(self._repro(self.repro, summary.findings))

    @staticmethod
    def _repro(path: Path, findings: Sequence[Finding]) -> str:
        if not findings:
            return f"{path} was not written: no divergence was found"
        from ..findings.script.script import script

        write(path, script(findings[0]))
        return f"wrote {path}, which shows the first divergence without staleloc"


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
    outputs.check()
    folder = outputs.folder
    assert folder is not None
    origin = replace(origin, release=release_of(origin.target))
    saved: list[Path] = []
    with progress() as show:
        outcome = fuzzing.find(origin, budget, workers, show, lambda finding: saved.append(save(finding, folder)))
    results = outcome.results
    known = split(origin.target, bases, outcome.findings)
    for finding, path, seconds in zip(outcome.findings, saved, outcome.shrink_seconds, strict=True):
        _report(finding, str(path), seconds)
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
    outputs.write(summary)
    if None in known:
        return 1
    return 2 if results.interrupted else 0


def replay(name: str, target: str | None, mutant: str | None, times: int, outputs: Outputs) -> int:
    """Play a tape and report; the exit code."""
    outputs.check()
    tape = replaying.find_tape(name)
    if target is None:
        target, known = replaying.origin_of(tape)
        mutant = mutant or known
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
    if outputs.regression is not None:
        write(outputs.regression, regression_test(name, played.tape, played.divergence, target, mutant))
        say(f"wrote {outputs.regression}, a test that plays this tape")
    if times > 1:
        same = "verdicts equal" if len(played.verdicts) == 1 else "verdicts unequal"
        counts = ", ".join(f"{count} {it.kind if it else 'silent'}" for it, count in played.verdicts.most_common())
        say(f"{same}: {times} replays, {counts}")
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
        )
    )
    return 1 if findings else 0


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


def _report(finding: Finding, saved: str | None = None, seconds: float | None = None) -> None:
    first, _, rest = render(finding, saved, seconds).partition("\n")
    say(first, bold=True)
    say(rest)
