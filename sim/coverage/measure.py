"""Plays scenarios and campaigns, and gathers the lines that their workers run."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ...models.config import LEVELS
from ..run.campaign import Budget, Campaign, Results
from ..run.player import Player, Unplayable, adapt
from ..run.process import ANSWER_SECONDS, WorkerProcess
from ..tapes.scenarios import scenarios
from ..targets.base import Profile, Scope, TargetError

__all__ = ["Measured", "Plan", "Played", "measure", "scopes_of"]


@dataclass(frozen=True)
class Plan:
    """What is played.

    Attributes:
        scope: the level and features to draw from; None for all that the target has.
        tapes: tapes of each scope; None for as many as `seconds` allow.
        seconds: time for the tapes of all scopes together, if `tapes` is None.
    """

    target: str
    seed: int
    tapes: int | None
    seconds: float | None
    workers: int
    scope: Scope | None = None


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


class _CoveredWorker(WorkerProcess):
    """A worker whose answers also tell the lines that it ran, and which can serve one campaign after the other."""

    module = "staleloc.sim.coverage.worker"

    def __init__(self, pool: _Pool, target: str, mutant: str | None, answer_seconds: float) -> None:
        self._pool = pool
        self._busy = True
        super().__init__(target, mutant, answer_seconds)
        self._busy = False

    def _request(self, target: str, mutant: str | None) -> dict[str, Any]:
        return {**super()._request(target, mutant), "covered": self._pool.files}

    def receive(self, seconds: float, processor: float | None = None) -> Any:
        answer = super().receive(seconds, processor)
        self._pool.add(answer.pop("lines"))
        return answer

    def run(self, scope: Scope, seed: int, tapes: list[int]) -> Iterator[dict[str, Any]]:
        self._busy = True
        yield from super().run(scope, seed, tapes)
        self._busy = False

    def play(self, tape_text: str, rows: int = 0) -> dict[str, Any]:
        self._busy = True
        answer = super().play(tape_text, rows)
        self._busy = False
        return answer

    def close(self) -> None:
        """Return to the pool; end only if there was no answer to the last request."""
        if self._busy:
            super().close()
        else:
            self._pool.put_back(self)

    def end(self) -> None:
        """End the process."""
        super().close()


class _Pool:
    """The workers of a run, and the lines that they ran. Any thread may use it.

    Loading a target takes seconds, so a worker is used again. Use as a context manager, which ends all workers.

    Args:
        files: the files of interest, by the names that their code has.
    """

    def __init__(self, files: Sequence[str]) -> None:
        self.files = list(files)
        self.lines: dict[str, set[int]] = defaultdict(set)
        self._idle: list[_CoveredWorker] = []
        self._lock = threading.Lock()

    def worker(self, target: str, mutant: str | None, answer_seconds: float = ANSWER_SECONDS) -> WorkerProcess:
        """Return an idle worker, or start one."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return _CoveredWorker(self, target, mutant, answer_seconds)

    def put_back(self, worker: _CoveredWorker) -> None:
        """Keep a worker for the next campaign."""
        with self._lock:
            self._idle.append(worker)

    def add(self, lines: Sequence[Any]) -> None:
        """Add lines that ran."""
        with self._lock:
            for file, numbers in lines:
                self.lines[file].update(numbers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for worker in self._idle:
            worker.end()


def scopes_of(profiles: Sequence[Profile]) -> list[Scope]:
    """Return each level and each combination of features that a target has, the simple ones first."""
    had = {(profile.level, profile.asks) for profile in profiles}
    ordered = sorted(had, key=lambda it: (LEVELS.index(it[0]), len(it[1]), it[1]))
    return [Scope(level, asks, together=len(asks) > 1) for level, asks in ordered]


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
        scopes = [plan.scope] if plan.scope is not None else scopes_of(profiles)
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
        drawn = player.profiles if plan.scope is None else plan.scope.of(player.profiles)
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
