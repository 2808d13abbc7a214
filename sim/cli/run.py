"""What ``staleloc fuzz`` and ``staleloc replay`` print and leave behind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ...models.config import CHECKS, LEVELS
from ..core.tape import Tape
from ..findings import search as fuzzing
from ..findings.cause import Cause
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
    shown = zip(outcome.findings, outcome.saved, outcome.shrink_seconds, strict=True)
    files = {finding.signature: (path, seconds) for finding, path, seconds in shown}
    for cause in outcome.causes:
        path, seconds = files[cause.first.signature]
        _report(cause.first, path, seconds, _others(cause))
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
        causes=outcome.causes,
    )
    say(summary.text(), newline=False)
    for note in results.notes:
        warn(note)
    outputs.write(summary, writer)
    return finish(1 if None in known else 2 if results.interrupted else 0, writer.failed)


def replay(
    name: str, target: str | None, mutant: str | None, checks: tuple[str, ...], times: int, outputs: Outputs
) -> int:
    """Play a tape, with these checks besides its own, and report; the exit code."""
    tape = _asking(replaying.find_tape(name), checks, name)
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
        origin = Origin(target, release, mutant, tape=name, checks=checks)
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


def _asking(tape: Tape, checks: tuple[str, ...], name: str) -> Tape:
    """The tape, which asks for these checks too."""
    if checks and tape.config.level == LEVELS[0]:
        raise Unplayable(
            f"--checks are of the engine level, and {name} is of the {LEVELS[0]} level; leave out --checks"
        )
    asked = tuple(known for known in CHECKS if known in (*tape.config.checks, *checks))
    return replace(tape, config=replace(tape.config, checks=asked))


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


def _others(cause: Cause) -> str:
    """What else shows the same cause as the reported finding."""
    more = len(cause.findings) - 1
    words = [f"{more} more minimal tape{'s' * (more != 1)} of this cause"] if more else []
    if cause.not_shrunk:
        words.append(f"{cause.not_shrunk} more way{'s' * (cause.not_shrunk != 1)} to diverge not shrunk")
    return f"{', '.join(words)}; shown by {cause.tapes} tapes of the campaign" if words else ""


def _report(finding: Finding, saved: Path | None = None, seconds: float | None = None, others: str = "") -> None:
    first, _, rest = render(finding, None if saved is None else str(saved), seconds, others).partition("\n")
    say(first, bold=True)
    say(rest)
