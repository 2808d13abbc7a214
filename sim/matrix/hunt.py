"""A hunt: plays the tapes of a seed on a target and finds the scenarios that its divergences look like.

At the allocator level all tapes are made of the same few calls, so a divergence is shrunk before it is compared. At the
engine level shrinking takes longer than finding, and the words of the divergence are compared.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cached_property
from itertools import count

from ...models.config import LEVELS
from ..core.choices import seeded
from ..core.divergence import Divergence
from ..core.tape import Tape
from ..parts.generate import generate_tape
from ..parts.legality import profile_of, same_code
from ..run.player import Player
from ..run.worker import place
from ..tapes.codec import dumps
from ..tapes.scenarios import Scenario, plain, same_paging, same_shape, same_words
from ..tapes.shrink import MAX_CANDIDATES, shrink
from ..targets.base import Profile, TargetError
from ..targets.scope import Scope
from .measurements import Hunt, HuntBudget, HuntKey, Other, Sighting

__all__ = ["drawn", "hunt", "looks_like", "scope_of"]

MAX_SHRUNK = 4
"""Tapes of one kind of divergence that are shrunk. Before they are, two incidents may look alike."""

MAX_LOST = 5
"""Tapes on which the target may hang or die before the hunt ends."""

_DRAWN = 16
"""Tapes in the digest of what a hunt draws."""


def scope_of(tape: Tape) -> Scope:
    """Return the scope in which a campaign can draw such a tape."""
    return Scope(tape.config.level, tape.config.features)


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
        return self._opened()

    def _opened(self) -> Player:
        return self._stack.enter_context(Player(self._target))

    def _shrunk(self, tape: Tape, divergence: Divergence) -> tuple[Tape, Divergence]:
        profile = profile_of(tape.config, self._profiles)
        assert profile is not None
        shrinker = self._shrinker
        small = shrink(tape, divergence, profile, shrinker.play, MAX_CANDIDATES, shrinker.effect)
        if isinstance(small.ended, KeyboardInterrupt):
            raise small.ended
        return small.tape, small.divergence
