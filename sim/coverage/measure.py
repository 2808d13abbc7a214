"""Plays scenarios and campaigns, and gathers the lines that their workers run."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ..core.tape import Tape
from ..parts.generate import scopes_of
from ..run.campaign import Budget, Campaign, Results
from ..run.player import Player, Unplayable, adapt
from ..run.pool import PooledWorker, WorkerPool
from ..tapes.scenarios import scenarios
from ..targets.base import Pins, Profile, Scope, TargetError
from ..targets.pins import no_scope

__all__ = ["Measured", "Plan", "Played", "lines_run", "measure"]


@dataclass(frozen=True)
class Plan:
    """What is played.

    Attributes:
        scope: the level and features to draw from; None for all that the target has.
        pins: fields of the config that have one value in every random tape, if `scope` is None.
        tapes: tapes of each scope; None for as many as `seconds` allow.
        seconds: time for the tapes of all scopes together, if `tapes` is None.
    """

    target: str
    seed: int
    tapes: int | None
    seconds: float | None
    workers: int
    scope: Scope | None = None
    pins: Pins = ()


@dataclass(frozen=True)
class Played:
    """What was played of one scope."""

    scope: Scope
    tapes: int
    diverged: int


@dataclass
class Measured:
    """What was played, and the lines that ran.

    Attributes:
        lines: file, by the name that its code has -> lines.
        scenarios: scenarios that were played.
        diverged: how many of them diverged.
        interrupted: not all was played.
        notes: messages for the user, one line each.
    """

    lines: Mapping[str, set[int]]
    played: list[Played] = field(default_factory=list)
    scenarios: int = 0
    diverged: int = 0
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)


class _CoveredWorker(PooledWorker):
    """A worker whose answers also tell the lines that it ran."""

    module = "staleloc.sim.coverage.worker"

    def __init__(self, pool: _Pool, target: str, mutant: str | None, answer_seconds: float) -> None:
        self._covered = pool
        super().__init__(pool, target, mutant, answer_seconds)

    def _request(self, target: str, mutant: str | None) -> dict[str, Any]:
        return {**super()._request(target, mutant), "covered": self._covered.files}

    def send(self, request: dict[str, Any]) -> None:
        super().send({**request, "afresh": True} if self._covered.afresh else request)

    def receive(self, seconds: float, processor: float | None = None) -> Any:
        answer = super().receive(seconds, processor)
        self._covered.add(answer.pop("lines"))
        return answer


class _Pool(WorkerPool):
    """The workers of a run, and the lines that they ran.

    Args:
        files: the files of interest, by the names that their code has.
        afresh: lines that ran before count again when a tape runs them.
    """

    def __init__(self, files: Sequence[str], afresh: bool = False) -> None:
        super().__init__(lambda pool, *request: _CoveredWorker(self, *request))
        self.files = list(files)
        self.afresh = afresh
        self.lines: dict[str, set[int]] = defaultdict(set)
        self._adding = threading.Lock()

    def add(self, lines: Sequence[Any]) -> None:
        """Add lines that ran."""
        with self._adding:
            for file, numbers in lines:
                self.lines[file].update(numbers)


def measure(
    plan: Plan,
    files: Sequence[str],
    show: Callable[[str], None] = lambda text: None,
    progress: Callable[[Results], None] = lambda results: None,
) -> Measured:
    """Play the scenarios that the target can play, then tapes of each scope.

    Args:
        files: the files of interest, by the names that their code has.
        show: is called with the stage of the run.
        progress: see `Campaign`.

    Raises:
        TargetError: the target cannot be loaded or driven.
    """
    with _Pool(files) as pool:
        result = Measured(pool.lines)
        show("playing scenarios")
        profiles = _play_scenarios(plan, pool, result)
        scopes = [plan.scope] if plan.scope is not None else scopes_of(profiles, plan.pins)
        if not scopes:
            raise TargetError(no_scope(plan.target, plan.pins, profiles))
        seconds = None if plan.seconds is None else plan.seconds / len(scopes)
        for scope in scopes:
            show(f"playing tapes of {scope}")
            budget = Budget(plan.tapes, seconds)
            results = Campaign(plan.target, plan.seed, budget, plan.workers, None, scope, progress, pool.worker).run()
            result.played.append(Played(scope, results.tapes, results.diverged))
            result.notes += results.notes
            if results.interrupted:
                result.interrupted = True
                break
        return result


def _play_scenarios(plan: Plan, pool: _Pool, result: Measured) -> list[Profile]:
    """Play the scenarios of the scope and return the target's profiles."""
    with Player(plan.target, worker=pool.worker) as player:
        drawn = player.profiles if plan.scope is None else plan.scope.selected(player.profiles)
        for scenario in scenarios():
            tape, _ = adapt(scenario.tape, drawn)
            if not any((it.level, it.features) == (tape.config.level, tape.config.features) for it in drawn):
                continue
            try:
                divergence = player.play(tape)
            except (Unplayable, TargetError):  # an adapter may learn only during play what a release lacks
                continue
            result.scenarios += 1
            result.diverged += divergence is not None
        return player.profiles


def lines_run(
    target: str, tapes: Iterable[Tape], files: Sequence[str], play: Callable[[], bool] = lambda: True
) -> list[dict[str, set[int]]]:
    """Return the lines that each of some tapes runs, without those of loading the target.

    Args:
        files: the files of interest, by the names that their code has.
        play: is asked before each tape; False ends the list.

    Raises:
        TargetError: the target cannot be loaded or driven.
    """
    found = []
    with _Pool(files, afresh=True) as pool, Player(target, worker=pool.worker) as player:
        for tape in tapes:
            if not play():
                break
            pool.lines.clear()
            with suppress(Unplayable):
                player.play(tape)
            found.append({file: set(lines) for file, lines in pool.lines.items()})
    return found
