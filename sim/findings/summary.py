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
        diverged: tapes that diverged; `findings` holds one a bug.
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
            "divergences": [_divergence(finding) for finding in self.findings],
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
        number = len(self.findings)
        bugs = f"{number} distinct finding{'s' * (number != 1)}" if number else "no divergence"
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
            lines += columns([_row(*it) for it in zip(self.findings, alike, strict=True)])
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

    def _declared(self) -> list[str]:
        """Declared events of the levels that tapes were drawn at."""
        levels = {profile.level for profile in self.profiles}
        return [kind for kind, event in declared().items() if event.level in levels]


def _own(kind: str, times: int) -> str:
    """The number of times that an event of the user's file was played."""
    if times:
        return f"declared event {kind}: played {times} time{'s' * (times != 1)}"
    return f"declared event {kind}: never played: draw() returned None, or legal() or the effects of apply() forbade it"


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


def _divergence(finding: Finding) -> dict[str, Any]:
    divergence, tape = finding.divergence, finding.tape
    return {
        "class": divergence.kind,
        "check": divergence.check,
        "event": divergence.event + 1,
        "minimal_length": len(tape.events),
        "sentence": f"{fact(divergence)}: {sentence(divergence, tape)}",
        "tape": to_json(finding.documented()),
    }
