"""From a campaign to causes: play, group what diverged by its place in the target's code, and shrink the shortest.

outcome = find(Origin("builtin", seed=0), Budget(tapes=1000), workers=2)
outcome.causes      # one a bug, as far as this can be decided
outcome.findings    # all that were shrunk, the ones of a cause in the order in which they were
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
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
from .cause import Cause, same_cause, same_place
from .finding import Finding, Origin
from .saves import Saves

__all__ = ["Outcome", "OutOfTime", "Shrinker", "find"]

SHRUNK = 2
"""Tapes that are shrunk of those that are certain to have one cause; a minimal tape may be shorter than another by
chance."""

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
        findings: the distinct ones, in the order in which they were shrunk.
        saved: the file of each finding, in the same order; None for one that is not saved.
        causes: the findings, grouped by cause, in the order of their first findings.
        shrink_seconds: how long the shrink of each finding took, in the same order.
    """

    results: Results
    findings: list[Finding] = field(default_factory=list)
    saved: list[Path | None] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
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
    with closing(Shrinker(origin.target, origin.mutant, results)) as shrinker:
        groups = _groups(origin.target, [shrinker.located(found) for found in results.found])
        for number, group in enumerate(groups, 1):
            _examine(origin, group, shrinker, partial(show.shrinking, number, len(groups)), outcome, kept)
    return outcome


def _groups(target: str, located: Sequence[Found]) -> list[list[Found]]:
    """What is certain to have one cause, the shortest tapes of a group first."""
    groups: list[list[Found]] = []
    for found in located:
        alike = (it for it in groups if same_place(target, it[0].divergence, found.divergence))
        group = next(alike, None)
        if group is None:
            groups.append([found])
        else:
            group.append(found)
    return [sorted(group, key=lambda it: (it.divergence.event, it.index)) for group in groups]


def _examine(
    origin: Origin,
    group: Sequence[Found],
    shrinker: Shrinker,
    show: Callable[[int], None],
    outcome: Outcome,
    kept: Saves,
) -> None:
    """Shrink the shortest tapes of a group, until some show its cause, and enter their findings."""
    shown = 0
    cause: Cause | None = None
    for found in group:
        here = replace(origin, index=found.index)
        if shown == SHRUNK and cause is not None:
            cause.not_shrunk += 1
            cause.tapes += found.tapes
            kept.drop(Finding(here, found.tape, found.divergence))
            continue
        shrunk, seconds, unsteady = shrinker.confirmed(found, show)
        divergence = shrinker.place(shrunk)
        finding = Finding(here, shrunk.tape, divergence, shrunk, unsteady)
        entered = _enter(finding, found.tapes, outcome)
        finding = replace(finding, cause=entered.label)
        if all(it.signature != finding.signature for it in outcome.findings):
            outcome.findings.append(finding)
            outcome.saved.append(kept.keep(finding))
            outcome.shrink_seconds.append(seconds)
        else:
            kept.drop(finding)
        if same_place(origin.target, found.divergence, divergence):
            shown, cause = shown + 1, entered


def _enter(finding: Finding, tapes: int, outcome: Outcome) -> Cause:
    """Enter a finding into the cause that it has, into a new one if there is none. Two causes that it has are one."""
    cause, *others = [it for it in outcome.causes if any(same_cause(known, finding) for known in it.findings)] or [
        Cause([], 0)
    ]
    for other in others:
        cause.join(other)
        outcome.causes.remove(other)
    if cause not in outcome.causes:
        outcome.causes.append(cause)
    if all(it.signature != finding.signature for it in cause.findings):
        cause.findings.append(finding)
    cause.tapes += tapes
    return cause


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

    def confirmed(self, found: Found, show: Callable[[int], None]) -> tuple[Shrunk, float, bool]:
        """The same, and whether the shrunk tape had another outcome in a fresh process."""
        shrunk, seconds = self.run(found, show)
        unsteady = self.again(shrunk) != shrunk.divergence
        if unsteady and found.divergence.kind == "hang":  # the campaign has seen this tape hang twice
            shrunk = Shrunk(found.tape, found.divergence, len(found.tape.events), shrunk.candidates, False)
            self._results.notes.append(f"tape {found.index} is not shrunk: a shorter one did not hang again")
            unsteady = False
        return shrunk, seconds, unsteady

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

    def located(self, found: Found) -> Found:
        """The same with the place in the target's code that made the state wrong, as far as it can be known."""
        return replace(found, divergence=self._located(found.tape, found.divergence))

    def place(self, shrunk: Shrunk) -> Divergence:
        """A shrunk tape's divergence with its place, likewise."""
        return self._located(shrunk.tape, shrunk.divergence)

    def _located(self, tape: Tape, divergence: Divergence) -> Divergence:
        if self._interrupted or _took_the_process(divergence):
            return divergence
        try:
            return self._player("shrink").located(tape, divergence)
        except KeyboardInterrupt:
            self._interrupted = True
        except TargetError as error:
            self._results.notes.append(f"a tape could not be played again: {error}")
        return divergence

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
