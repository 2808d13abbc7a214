"""Measures what the matrix lacks: replays first, which take seconds, then hunts.

Results are saved one by one, so that an interrupted run loses only the unfinished hunts. A hunt plays the tapes of a
seed on a target and finds the scenarios that its divergences look like.

At the allocator level all tapes are made of the same few calls, so a divergence is shrunk before it is compared. At the
engine level shrinking takes longer than finding, and the words of the divergence are compared.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count

from ...models.config import LEVELS
from ..core.choices import seeded
from ..core.divergence import Divergence
from ..core.tape import Tape
from ..parts.generate import generate_tape
from ..parts.legality import profile_of, same_code
from ..run.player import Player, Unplayable, WorkerLost, adapt
from ..run.process import kill_workers
from ..run.progress import Progress
from ..run.worker import place
from ..tapes.codec import dumps
from ..tapes.scenarios import Scenario, plain, same_paging, same_shape, same_words
from ..tapes.shrink import MAX_CANDIDATES, shrink
from ..targets.base import Profile, Scope, TargetError
from ..targets.registry import release_of
from .measurements import Hunt, HuntBudget, HuntKey, Matrix, Other, Replayed, Sighting
from .record import counterpart_of, diverging, is_known, is_quiet, of_scope, order, scopes, seeds_of

__all__ = ["Session", "drawn", "hunt", "looks_like", "replay", "replay_all"]

MAX_SHRUNK = 4
"""Tapes of one kind of divergence that are shrunk. Before they are, two incidents may look alike."""

MAX_LOST = 5
"""Tapes on which the target may hang or die before the hunt ends."""

_DRAWN = 16
"""Tapes in the digest of what a hunt draws."""


def drawn(profiles: Sequence[Profile], seed: int, wanted: Sequence[Scenario] = ()) -> str:
    """Return a digest of the first tapes of a seed and of the words of the wanted scenarios. It is equal where a hunt
    would play and find the same."""
    texts = "".join(dumps(generate_tape(seeded(seed, index), profiles)) for index in range(_DRAWN))
    words = "".join("\n".join([it.name, *it.shows]) for it in wanted if it.shows)
    return hashlib.sha256((texts + words).encode()).hexdigest()[:16]


def looks_like(tape: Tape, divergence: Divergence, known: Sequence[Scenario]) -> Scenario | None:
    """Return the first scenario that a divergence looks like, by its words or by the shape of its minimal tape."""
    fitting = [it for it in known if same_code(it.tape.config, tape.config)]
    shaped = [it for it in fitting if same_shape(it, tape)]
    alike = [it for it in shaped if it.kind == divergence.kind]
    alike += [it for it in fitting if same_words(it, divergence)]
    both = [it for it in shaped if same_words(it, divergence)]
    alike.sort(key=lambda it: (not same_paging(it, tape), it not in both))
    return next(iter(alike + [it for it in shaped if divergence.kind in it.also]), None)


def hunt(
    key: HuntKey,
    budget: HuntBudget,
    known: Sequence[Scenario],
    wanted: Sequence[str],
    over: Callable[[], bool] = lambda: False,
) -> Hunt:
    """Play until everything wanted was seen, or the budget is spent.

    Args:
        known: scenarios that a find may look like; the wanted ones first.
        wanted: names of the scenarios whose tapes diverge on this target. If there are none, the whole budget is
            played.
        over: returns whether the hunt was cancelled.

    Raises:
        TargetError: the target cannot be loaded.
    """
    with ExitStack() as stack:
        hunter = _Hunt(stack, key, known)
        return hunter.run(budget, tuple(wanted), over)


class _Hunt:
    def __init__(self, stack: ExitStack, key: HuntKey, known: Sequence[Scenario]) -> None:
        self._stack = stack
        self._target = key.target
        self._player = self._opened()
        self._profiles = key.scope.of(self._player.profiles)
        self._seed = key.seed
        self._known = known
        self._tried: Counter[tuple[str, ...]] = Counter()
        self._found: dict[str, Sighting] = {}
        self._others: dict[tuple[str, ...], Other] = {}
        self._seconds = 0.0

    def run(self, budget: HuntBudget, wanted: tuple[str, ...], over: Callable[[], bool]) -> Hunt:
        note = None
        tapes = lost = 0
        try:
            for index in count():
                found_all = wanted and all(name in self._found for name in wanted)
                if found_all or self._spent(budget, index) or over():
                    break
                tape, divergence = self._play(index)
                tapes += 1
                if divergence is not None:
                    self._note(index, tape, divergence)
                    lost += divergence.event < 0
                if lost == MAX_LOST:
                    note = f"the target hung or died on {MAX_LOST} tapes"
                    break
        except TargetError as error:
            note = str(error)
        digest = drawn(self._profiles, self._seed, [it for it in self._known if it.name in wanted])
        return Hunt(wanted, digest, tapes, self._seconds, self._found, tuple(self._others.values()), note)

    def _spent(self, budget: HuntBudget, played: int) -> bool:
        by_tapes = budget.tapes is not None and played >= budget.tapes
        return by_tapes or (budget.seconds is not None and self._seconds >= budget.seconds)

    def _play(self, index: int) -> tuple[Tape, Divergence | None]:
        """Play a tape and return it with its divergence. Processor time is counted, which is the same on a busy
        machine; for a target that never returns, it is elapsed time."""
        clock, ours = time.monotonic(), time.thread_time()
        tape = generate_tape(seeded(self._seed, index), self._profiles)
        divergence = self._player.play(tape)
        theirs = self._player.cpu
        self._seconds += time.monotonic() - clock if theirs is None else time.thread_time() - ours + theirs
        return tape, divergence

    def _note(self, index: int, tape: Tape, divergence: Divergence) -> None:
        """Record the divergence of a tape, unless enough tapes of its kind were examined."""
        kind = (*divergence.key, plain(divergence.what), *place(tape, divergence))
        self._tried[kind] += 1
        if self._tried[kind] > MAX_SHRUNK:
            return
        if tape.config.level == LEVELS[0] and divergence.event >= 0:
            tape, divergence = self._shrunk(tape, divergence)
        scenario = looks_like(tape, divergence, self._known)
        if scenario is not None:
            self._found.setdefault(scenario.name, Sighting(index, self._seconds))
        else:
            what = plain(divergence.what)
            self._others.setdefault((*divergence.key, what), Other(*divergence.key, what, index))

    @cached_property
    def _shrinker(self) -> Player:
        """A player with its own process, so that the process of the hunt plays the tapes of the hunt only."""
        return self._opened(sure=False)

    def _opened(self, sure: bool = True) -> Player:
        return self._stack.enter_context(Player(self._target, sure=sure))

    def _shrunk(self, tape: Tape, divergence: Divergence) -> tuple[Tape, Divergence]:
        profile = profile_of(tape.config, self._profiles)
        assert profile is not None
        shrinker = self._shrinker
        small = shrink(tape, divergence, profile, shrinker.play, MAX_CANDIDATES, shrinker.effect)
        if isinstance(small.ended, KeyboardInterrupt):
            raise small.ended
        return small.tape, small.divergence


def replay_all(player: Player, known: Sequence[Scenario]) -> dict[str, Replayed]:
    """Return the result of each scenario's tape on the player's target."""
    return {scenario.name: replay(player, scenario)[0] for scenario in known}


def replay(player: Player, scenario: Scenario) -> tuple[Replayed, Tape, Divergence | None]:
    """Return the result of a scenario's tape, the tape as it was played, and its divergence."""
    tape, _ = adapt(scenario.tape, player.profiles)
    try:
        divergence = player.play(tape)
    except WorkerLost:
        raise
    except (Unplayable, TargetError) as error:  # an adapter may find out only then that a release lacks something
        return Replayed("unplayable", str(error)), tape, None
    if divergence is None:
        nothing = player.events == player.skipped
        silent = Replayed("unplayable", "none of its events applies") if nothing else Replayed("silent")
        return silent, tape, None
    verdict = "diverges" if divergence.kind == scenario.kind else "other"
    return Replayed(verdict, f"{divergence.kind}: {divergence.what}"), tape, divergence


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
                version = release_of(target)
                with Player(target) as player:
                    self.matrix.replays[target] = replay_all(player, self.known)
                    self._profiles[target] = player.profiles
            except TargetError as error:
                self.matrix.absent[target] = str(error)
                continue
            self.matrix.absent.pop(target, None)
            record = counterpart_of(target, version, self.matrix.replays[target], self.known)
            if record != target:
                self.matrix.judged[target] = record
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
        drivable = [(target, scope) for target, scope in everywhere if not self._lacks(target, scope)]
        jobs = [(*it, diverging(self.matrix, self.known, *it)) for it in drivable]
        for target, scope, wanted in sorted(jobs, key=lambda job: bool(job[2])):
            if quiet_only and wanted:
                return
            if not wanted and not is_quiet(self.matrix, self.known, target, scope):
                continue
            for seed in seeds_of(self.matrix, wanted):
                key = HuntKey(target, scope, seed)
                if not self._is_done(key, wanted):
                    yield key, wanted

    def _lacks(self, target: str, scope: Scope) -> bool:
        return target not in self._profiles or scope.lacking(self._profiles[target]) is not None

    def _is_done(self, key: HuntKey, wanted: tuple[str, ...]) -> bool:
        done = self.matrix.hunts.get(key)
        if done is None or done.note is not None or done.wanted != wanted:
            return False
        known = [it for it in self._known(key, wanted) if it.name in wanted]
        return done.drawn == drawn(key.scope.of(self._profiles[key.target]), key.seed, known)
