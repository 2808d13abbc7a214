"""Measures what the matrix lacks: replays first, which take seconds, then hunts.

Results are saved one by one, so that an interrupted run loses only the unfinished hunts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field

from ..run.player import Player, Unplayable, WorkerLost, adapt
from ..run.process import kill_workers
from ..run.progress import Progress
from ..tapes.scenarios import Scenario
from ..targets.base import Profile, Scope, TargetError
from ..targets.registry import prepare
from .hunt import drawn, hunt
from .measurements import Hunt, HuntKey, Matrix, Replayed
from .record import diverging, is_known, of_scope, order, scopes, seeds_of

__all__ = ["Session"]


def replay_all(player: Player, known: Sequence[Scenario]) -> dict[str, Replayed]:
    """Return the result of each scenario's tape on the player's target."""
    return {scenario.name: _replay(player, scenario) for scenario in known}


def _replay(player: Player, scenario: Scenario) -> Replayed:
    tape, _ = adapt(scenario.tape, player.profiles)
    try:
        divergence = player.play(tape)
    except WorkerLost:
        raise
    except (Unplayable, TargetError) as error:  # an adapter may find out only then that a release lacks something
        return Replayed("unplayable", str(error))
    if divergence is None:
        nothing = player.events == player.skipped
        return Replayed("unplayable", "none of its events applies there") if nothing else Replayed("silent")
    verdict = "diverges" if divergence.kind == scenario.kind else "other"
    return Replayed(verdict, f"{divergence.kind}: {divergence.what}")


@dataclass
class Session:
    """One run of the command: fills `matrix` and saves it as it grows.

    Attributes:
        known: every scenario.
        save: is called whenever the matrix has grown.
    """

    matrix: Matrix
    known: Sequence[Scenario]
    save: Callable[[Matrix], None]
    show: Progress
    _profiles: dict[str, list[Profile]] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)

    def replays(self, targets: Sequence[str]) -> None:
        """Play every scenario on each target. A target that cannot be fetched or loaded is noted and left out of the
        hunts."""
        for target in sorted(targets, key=order):
            self.show.stage(f"replays on {target}")
            try:
                prepare(target)
                with Player(target) as player:
                    self.matrix.replays[target] = replay_all(player, self.known)
                    self._profiles[target] = player.profiles
            except TargetError as error:
                self.matrix.absent[target] = str(error)
                continue
            self.matrix.absent.pop(target, None)
            self.matrix.releases = sorted({*self.matrix.releases, target}, key=order)
            self.save(self.matrix)

    def hunts(self, workers: int, quiet_only: bool = False) -> None:
        """Run the missing hunts, everywhere or only where no tape diverges. Ctrl-C ends them and is raised again."""
        jobs = list(self._missing(quiet_only))
        with ThreadPoolExecutor(workers) as pool:
            waiting = {pool.submit(self._hunt, key, wanted): key for key, wanted in jobs}
            try:
                for number, job in enumerate(as_completed(waiting), 1):
                    key, done = waiting[job], job.result()
                    self.matrix.hunts[key] = done
                    self.save(self.matrix)
                    seen = f"{len(done.found)} found in {done.tapes} tapes"
                    self.show.stage(f"hunt {number} of {len(jobs)}: {key.target}, {key.scope}, seed {key.seed}: {seen}")
            except BaseException:
                self._over.set()
                self._stop(pool)
                raise

    @staticmethod
    def _stop(pool: ThreadPoolExecutor) -> None:
        with suppress(KeyboardInterrupt):
            kill_workers()
            pool.shutdown(wait=False, cancel_futures=True)

    def _hunt(self, key: HuntKey, wanted: tuple[str, ...]) -> Hunt:
        return hunt(key, self.matrix.budget, self._known(key, wanted), wanted, self._over.is_set)

    def _known(self, key: HuntKey, wanted: tuple[str, ...]) -> list[Scenario]:
        """Return the scenarios that a find may look like: the wanted ones first, then others of the scope, then those
        of the same level that diverge on the target."""
        known = sorted(of_scope(self.known, key.scope), key=lambda it: it.name not in wanted)
        level = [it for it in self.known if it.tape.config.level == key.scope.level and it not in known]
        return known + [it for it in level if is_known(self.matrix, key.target, it.name)]

    def _missing(self, quiet_only: bool) -> Iterator[tuple[HuntKey, tuple[str, ...]]]:
        """Yield the missing hunts: places where nothing diverges first, one scope after the other, newest release
        first."""
        everywhere = [(target, scope) for scope in scopes(self.known) for target in reversed(self.matrix.releases)]
        places = [(target, scope) for target, scope in everywhere if not self._lacks(target, scope)]
        wanted = {place: diverging(self.matrix, self.known, *place) for place in places}
        for place in sorted(places, key=lambda place: bool(wanted[place])):
            if quiet_only and wanted[place]:
                return
            for seed in seeds_of(self.matrix, wanted[place]):
                key = HuntKey(*place, seed)
                if not self._is_done(key, wanted[place]):
                    yield key, wanted[place]

    def _lacks(self, target: str, scope: Scope) -> bool:
        return target not in self._profiles or scope.lacking(self._profiles[target]) is not None

    def _is_done(self, key: HuntKey, wanted: tuple[str, ...]) -> bool:
        done = self.matrix.hunts.get(key)
        if done is None or done.note is not None or done.wanted != wanted:
            return False
        known = [it for it in self._known(key, wanted) if it.name in wanted]
        return done.drawn == drawn(key.scope.of(self._profiles[key.target]), key.seed, known)
