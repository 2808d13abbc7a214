"""From a campaign to findings: play, shrink what diverged, and keep one finding a bug.

outcome = find(Origin("builtin", seed=0), Budget(tapes=1000), workers=2)
outcome.findings    # in the order of tape numbers
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ..core.divergence import Divergence
from ..core.tape import Tape
from ..parts.legality import profile_of
from ..run.campaign import Budget, Campaign, Found, Results
from ..run.player import Player
from ..run.process import ANSWER_SECONDS, WorkerProcess
from ..run.progress import Progress
from ..tapes.shrink import MAX_CANDIDATES, Judge, Shrunk, shrink
from ..targets.base import TargetError
from .finding import Finding, Origin
from .saves import Saves

__all__ = ["Outcome", "OutOfTime", "Shrinker", "find"]

HANG_SECONDS = 3.0
"""Seconds of processor time for a candidate if the target does not return in the bug, and"""

HANG_CANDIDATES = 200
"""the number of candidates then."""

SHOWN_EVERY = 20
"""Candidates between two updates of a shrink's progress."""


@dataclass
class Outcome:
    """The outcome of a campaign.

    Attributes:
        results: the campaign's results.
        findings: one a bug, in the order of tape numbers.
        saved: the file of each finding, in the same order; None for one that is not saved.
        shrink_seconds: how long the shrink of each finding took, in the same order.
    """

    results: Results
    findings: list[Finding] = field(default_factory=list)
    saved: list[Path | None] = field(default_factory=list)
    shrink_seconds: list[float] = field(default_factory=list)


def find(
    origin: Origin,
    budget: Budget,
    workers: int,
    progress: Progress | None = None,
    saves: Saves | None = None,
) -> Outcome:
    """Run the campaign of `origin` (target, mutant, scope, seed) and shrink its findings.

    Ctrl-C ends the campaign, a second Ctrl-C the shrinking. The findings so far are in the outcome. Each is in `saves`
    from when it was seen, unshrunk at first.

    Raises:
        TargetError: the target cannot be loaded or driven.
    """
    show = progress or Progress()
    seed = origin.seed or 0
    kept = saves or Saves()
    seen: dict[int, Finding] = {}

    def see(found: Found) -> None:
        seen[found.index] = Finding(replace(origin, index=found.index), found.tape, found.divergence)
        kept.see(seen[found.index])

    campaign = Campaign(origin.target, seed, budget, workers, origin.mutant, origin.scope, show.campaign, seen=see)
    results = campaign.run()
    outcome = Outcome(results)
    for index in sorted(seen.keys() - {found.index for found in results.found}):
        kept.drop(seen[index])
    signatures = set()
    with closing(Shrinker(origin.target, origin.mutant, results)) as shrinker:
        for number, found in enumerate(results.found, 1):
            shrunk, seconds = shrinker.run(found, partial(show.shrinking, number, len(results.found)))
            unsteady = shrinker.again(shrunk) != shrunk.divergence
            if unsteady and found.divergence.kind == "hang":  # the campaign has seen this tape hang twice
                shrunk = Shrunk(found.tape, found.divergence, len(found.tape.events), shrunk.candidates, False)
                results.notes.append(f"tape {found.index} is not shrunk: a shorter one did not hang again")
                unsteady = False
            finding = Finding(replace(origin, index=found.index), shrunk.tape, shrunk.divergence, shrunk, unsteady)
            if finding.signature not in signatures:
                signatures.add(finding.signature)
                outcome.findings.append(finding)
                outcome.saved.append(kept.keep(finding))
                outcome.shrink_seconds.append(seconds)
            else:
                kept.drop(finding)
    return outcome


def _took_the_process(divergence: Divergence) -> bool:
    """Whether the divergence is a hang for which the process had to be killed."""
    return divergence.kind == "hang" and divergence.event < 0


def _counted(judge: Judge, show: Callable[[int], None]) -> Judge:
    """The same judge, which regularly tells `show` how many tapes it has played."""
    numbers = itertools.count()

    def counted(tape: Tape) -> Divergence | None:
        number = next(numbers)
        if number % SHOWN_EVERY == 0:
            show(number)
        return judge(tape)

    return counted


class OutOfTime(TargetError):
    """The time for a shrink was spent."""


def _limited(judge: Judge, deadline: float | None) -> Judge:
    """The same judge, which ends the shrink at a time."""

    def limited(tape: Tape) -> Divergence | None:
        if deadline is not None and time.monotonic() >= deadline:
            raise OutOfTime("its time was spent")
        return judge(tape)

    return limited


class Shrinker:
    """Shrinks one tape after the other, in as few processes as possible.

    Args:
        results: the campaign's results: profiles are read, notes are added.
        worker: see `Player`.
        answer_seconds: time limit for one tape.
    """

    def __init__(
        self,
        target: str,
        mutant: str | None,
        results: Results,
        worker: Callable[[str, str | None, float], WorkerProcess] | None = None,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._target = target
        self._mutant = mutant
        self._results = results
        self._worker = worker
        self._answer_seconds = answer_seconds
        self._players: dict[str, Player] = {}
        self._interrupted = False

    def run(self, found: Found, show: Callable[[int], None], deadline: float | None = None) -> tuple[Shrunk, float]:
        """The shrunk tape and the seconds it took, without loading the target.

        Args:
            show: is regularly told how many candidates were played.
            deadline: the monotonic time at which the shrink ends with the smallest tape so far.
        """
        started = Shrunk(found.tape, found.divergence, len(found.tape.events), 0, False)
        if self._interrupted:
            return started, 0.0
        try:
            shrunk, seconds = self._shrink(found, show, deadline)
        except (KeyboardInterrupt, TargetError) as error:  # before anything was played
            shrunk, seconds = replace(started, ended=error), 0.0
        if shrunk.ended is not None:
            self._note(found.index, shrunk.ended)
        return shrunk, seconds

    def _note(self, tape: int, ended: KeyboardInterrupt | TargetError) -> None:
        if isinstance(ended, KeyboardInterrupt):
            self._interrupted = True
            self._results.notes.append(f"interrupted; tape {tape} is not fully shrunk, and no later tape is shrunk")
        else:
            self._results.notes.append(f"tape {tape} is not fully shrunk: {ended}")

    def _shrink(self, found: Found, show: Callable[[int], None], deadline: float | None) -> tuple[Shrunk, float]:
        hangs = found.divergence.kind == "hang"
        player = self._player("hang") if _took_the_process(found.divergence) else self._player("shrink")
        profile = profile_of(found.tape.config, self._results.profiles)
        assert profile is not None
        budget = HANG_CANDIDATES if hangs else MAX_CANDIDATES
        started = time.monotonic()
        judge = _limited(_counted(player.play, show), deadline)
        shrunk = shrink(found.tape, found.divergence, profile, judge, budget, player.effect)
        return shrunk, time.monotonic() - started

    def again(self, shrunk: Shrunk) -> Divergence | None:
        """The tape's divergence in a fresh process."""
        try:
            if not self._interrupted:
                return self._player("confirm").play(shrunk.tape)
        except KeyboardInterrupt:
            self._interrupted = True
        except TargetError as error:
            self._results.notes.append(f"a tape could not be played again: {error}")
        return shrunk.divergence

    def _player(self, purpose: str) -> Player:
        if purpose not in self._players:
            seconds = HANG_SECONDS if purpose == "hang" else self._answer_seconds
            self._players[purpose] = Player(self._target, self._mutant, seconds, worker=self._worker, sure=False)
        return self._players[purpose]

    def close(self) -> None:
        for player in self._players.values():
            player.close()
