"""The outcome of a run in numbers: as JSON (``summary.schema.json``) and as a few lines of text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..parts.hooks import declared
from ..parts.situations import possible
from ..tapes.codec import to_json
from ..tapes.scenarios import lookalike
from ..targets.base import Profile
from .cause import Cause
from .explain import fact, sentence
from .finding import Finding
from .text import columns

__all__ = ["Summary"]

_PER_LINE = 4
"""Situations on one line of text."""


@dataclass(frozen=True)
class Summary:
    """The outcome of a run.

    Attributes:
        target: the target's name.
        release: the engine's release, or None.
        mutant: the mutant's name, or None.
        seed: the campaign's seed; None for a replay.
        profiles: the ways in which the target was driven.
        seen: situation -> how often it happened.
        diverged: tapes that diverged.
        findings: the distinct ones of them.
        causes: the findings by cause; if there are none, each finding is a cause.
        skipped: how many of the events did not apply.
        interrupted: the budget was not spent, so a run without a divergence proves nothing.
    """

    target: str
    release: str | None
    mutant: str | None
    seed: int | None
    findings: Sequence[Finding]
    tapes: int
    events: int
    seconds: float
    profiles: Sequence[Profile]
    seen: Mapping[str, int]
    diverged: int
    skipped: int = 0
    interrupted: bool = False
    causes: Sequence[Cause] = ()

    @property
    def grouped(self) -> Sequence[Cause]:
        """The findings by cause."""
        return self.causes or [Cause([finding], 1) for finding in self.findings]

    @property
    def events_per_second(self) -> float:
        """Events played in a second, over the whole run."""
        return self.events / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON values, valid under ``summary.schema.json``."""
        return {
            "target": self.target,
            "release": self.release,
            "seed": self.seed,
            "verdict": self._verdict(),
            "causes": [_cause(cause, self.findings) for cause in self.grouped],
            "divergences": [_divergence(finding, self._number(finding)) for finding in self.findings],
            "tapes": self.tapes,
            "events": self.events,
            "applied": self.events - self.skipped,
            "skipped": self.skipped,
            "seconds": round(self.seconds, 3),
            "events_per_second": round(self.events_per_second, 1),
            "situations": {name: self.seen.get(name, 0) for name in possible(self.profiles)},
        }

    def _verdict(self) -> str:
        if self.findings:
            return "divergence"
        return "interrupted" if self.interrupted else "clean"

    def text(self) -> str:
        """The summary in lines: what was found, how much was played, which situations were reached."""
        causes = self.grouped
        bugs = f"{_counted(len(causes), 'cause')}, {_counted(len(self.findings), 'distinct finding')}"
        bugs = bugs if causes else "no divergence"
        alike = [_alike(finding) for finding in self.findings]
        bugs += f", {sum(map(bool, alike))} like a known scenario" if any(alike) else ""
        of = f"; {self.diverged} of {self.tapes} tapes diverged" if self.diverged else ""
        of += "; interrupted" if self.interrupted else ""
        defect = f" with mutant {self.mutant}" if self.mutant else ""
        lines = [
            f"{self.target}{defect}, seed {self.seed}: {bugs}{of}",
            f"{self.tapes} tapes, {self.events} events, {self.events_per_second:.0f} events/s, {self.seconds:.1f} s",
        ]
        if len(self.findings) > 1:
            lines += [line for number, cause in enumerate(causes, 1) for line in _lines(number, cause)]
        reachable = possible(self.profiles)
        seen = [name for name in reachable if self.seen.get(name)]
        never = [name for name in reachable if name not in seen]
        lines.append(f"situations: {len(reachable) - len(never)} of {len(reachable)} seen")
        cells = [cell for name in seen for cell in (name, str(self.seen[name]))]
        cells += [""] * (-len(cells) % (2 * _PER_LINE))
        if seen:
            lines += columns([cells[i : i + 2 * _PER_LINE] for i in range(0, len(cells), 2 * _PER_LINE)])
        if never:
            lines += textwrap.wrap(f"never seen: {', '.join(never)}", 120)
        lines += [_own(kind, self.seen.get(f"event {kind}", 0)) for kind in self._declared()]
        return "\n".join(lines) + "\n"

    def _number(self, finding: Finding) -> int:
        """The number of a finding's cause, from 1."""
        known = (number for number, cause in enumerate(self.grouped, 1) if finding.signature in cause.signatures)
        return next(known)

    def _declared(self) -> list[str]:
        """Declared events of the levels that tapes were drawn at."""
        levels = {profile.level for profile in self.profiles}
        return [kind for kind, event in declared().items() if event.level in levels]


def _own(kind: str, times: int) -> str:
    """The number of times that an event of the user's file was played."""
    if times:
        return f"declared event {kind}: played {times} time{'s' * (times != 1)}"
    return f"declared event {kind}: never played: draw() returned None, or legal() or the effects of apply() forbade it"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _lines(number: int, cause: Cause) -> list[str]:
    """A cause, and its findings below it, that with the shortest tape first."""
    place = cause.place
    head = f"  cause {number}: {cause.first.divergence.kind}, {_counted(cause.tapes, 'tape')}"
    head += f", {_counted(cause.not_shrunk, 'more way')} not shrunk" if cause.not_shrunk else ""
    head += f"; {place}" if place is not None else ""
    ordered = [cause.first, *(it for it in cause.findings if it is not cause.first)]
    return [head, *columns([_row(it, _alike(it)) for it in ordered], "    ")]


def _row(finding: Finding, alike: str) -> tuple[str, ...]:
    tape = finding.tape
    length = f"{len(tape.events)} events"
    last = f"up to {tape.events[-1].kind}" if tape.events else ""
    return f"tape {finding.origin.index}", finding.divergence.kind, tape.config.pool, length, last, alike


def _alike(finding: Finding) -> str:
    """The scenario that a finding looks like, if it diverges on this target."""
    target = finding.origin.recorded
    known = lookalike(finding.tape, finding.divergence, target)
    return known.name if known is not None and target in known.diverges and finding.origin.mutant is None else ""


def _cause(cause: Cause, findings: Sequence[Finding]) -> dict[str, Any]:
    first = cause.first
    return {
        "class": first.divergence.kind,
        "check": first.divergence.check,
        "place": cause.place,
        "tapes": cause.tapes,
        "findings": len(cause.findings),
        "not_shrunk": cause.not_shrunk,
        "shortest": next(number for number, it in enumerate(findings) if it.signature == first.signature),
    }


def _divergence(finding: Finding, cause: int) -> dict[str, Any]:
    divergence, tape = finding.divergence, finding.tape
    return {
        "class": divergence.kind,
        "check": divergence.check,
        "cause": cause,
        "calls": list(divergence.calls),
        "event": divergence.event + 1,
        "minimal_length": len(tape.events),
        "sentence": f"{fact(divergence)}: {sentence(divergence, tape)}",
        "tape": to_json(finding.documented()),
    }
