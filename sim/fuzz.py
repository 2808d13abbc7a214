"""From a campaign to findings: play, shrink what diverged, and keep one finding a bug.

    outcome = find("builtin", seed=0, budget=Budget(tapes=1000), workers=2)
    outcome.findings    # in the order of tape numbers
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from staleloc.sim.campaign import Budget, Campaign, Found, Results
from staleloc.sim.finding import Finding, Origin
from staleloc.sim.judge import Player
from staleloc.sim.process import ANSWER_SECONDS
from staleloc.sim.shrink import MAX_CANDIDATES, Shrunk, shrink

__all__ = ["Outcome", "find"]

HANG_SECONDS = 3.0
"""How long a candidate may take when the bug is that the target does not come back."""

HANG_CANDIDATES = 100
"""Candidates tried then."""


@dataclass
class Outcome:
    """What a campaign came to.

    Attributes:
        results: the campaign's own account.
        findings: one a bug, in the order of tape numbers.
        shrink_seconds: how long the shrink of each finding took, in the same order.
    """

    results: Results
    findings: list[Finding] = field(default_factory=list)
    shrink_seconds: list[float] = field(default_factory=list)


def find(
    target: str,
    seed: int,
    budget: Budget,
    workers: int,
    mutant: str | None = None,
    release: str | None = None,
    progress: Callable[[Results], None] = lambda results: None,
) -> Outcome:
    """Run a campaign and shrink what it found. Ctrl-C ends the campaign, then the shrinking; nothing found is lost.

    Raises:
        TargetError: the target cannot be loaded or driven.
    """
    results = Campaign(target, seed, budget, workers, mutant, progress).run()
    outcome = Outcome(results)
    signatures = set()
    hurry = False
    for found in results.found:
        started = time.monotonic()
        shrunk, hurry = (_unshrunk(found), True) if hurry else _shrink(found, target, mutant, results)
        if hurry and "the shrinking was interrupted" not in results.notes:
            results.notes.append("the shrinking was interrupted")
        origin = Origin(target, release, mutant, seed, found.index)
        finding = Finding(origin, shrunk.tape, shrunk.divergence, shrunk)
        if finding.signature not in signatures:
            signatures.add(finding.signature)
            outcome.findings.append(finding)
            outcome.shrink_seconds.append(time.monotonic() - started)
    return outcome
