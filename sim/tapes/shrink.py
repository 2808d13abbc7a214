"""Shrink a diverging tape to a local minimum: no single event can be dropped from the result.

A shrink keeps the class and the check of the divergence, its decisive situation, and the kind of event that made a loc
stale, so that it does not slide to another bug. It needs only the divergence of each candidate, so it works for any
target.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations

from ...models.config import EVICTION_POLICIES, FULL, LEVELS, SWA, Config
from ..core.divergence import Divergence
from ..core.tape import Tape
from ..parts import registry
from ..parts.allocator import events as ev
from ..parts.allocator.forwards import STORAGES
from ..parts.legality import unfit
from ..targets.base import Profile, TargetError
from .reshape import joined, merged, renumbered, repair, requests_of, scaled, shortened

__all__ = ["MAX_CANDIDATES", "Effect", "Judge", "Shrunk", "cost", "shrink", "simpler_configs"]

MAX_CANDIDATES = 3000
"""Candidates tried at most; a budget in candidates, not in seconds, keeps the result the same everywhere."""

_SHORT = 16
"""Events up to which all pairs of them are tried."""

Judge = Callable[[Tape], Divergence | None]
"""Plays a legal tape and returns its divergence."""


@dataclass(frozen=True)
class Shrunk:
    """The smallest tape found.

    Attributes:
        before: events of the original tape.
        candidates: tapes that were played.
        minimal: no single event can be dropped; False only if the budget ran out or the shrink was interrupted.
        ended: the interruption of the shrink: Ctrl-C, or a target that can no longer be driven. None otherwise.
    """

    tape: Tape
    divergence: Divergence
    before: int
    candidates: int
    minimal: bool
    ended: KeyboardInterrupt | TargetError | None = None


Effect = Callable[[], Tape | None]
"""The effective part of the tape that was judged last, or None if all of it took effect."""


def shrink(
    tape: Tape,
    divergence: Divergence,
    profile: Profile,
    judge: Judge,
    budget: int = MAX_CANDIDATES,
    effect: Effect = lambda: None,
) -> Shrunk:
    """Shrink `tape`, whose divergence under `judge` is `divergence`. If it is interrupted, return the smallest so
    far."""
    return _Shrinker(tape, divergence, profile, judge, budget, effect).run()


_ALLOCATING = (ev.Alloc, ev.AllocExtend, ev.AllocExtendSwaTail)


_NUMBER = re.compile(r"\d+")


class _OutOfBudget(Exception):
    pass


def _identity(divergence: Divergence, tape: Tape) -> tuple[str, ...]:
    """The identity of a bug while events are dropped and changed."""
    stale = divergence.stale_at
    culprit = () if stale is None else (tape.events[stale].kind,)
    why = () if tape.config.level == LEVELS[0] else (_NUMBER.sub("#", divergence.sentence),)
    return *divergence.key, *divergence.during, *culprit, *why


class _Shrinker:
    def __init__(
        self, tape: Tape, divergence: Divergence, profile: Profile, judge: Judge, budget: int, effect: Effect
    ) -> None:
        self.before = len(tape.events)
        self.best = tape, divergence
        self.profile = profile
        self.judge = judge
        self.budget = budget
        self.effect = effect
        self.wanted = _identity(divergence, tape)
        self.tried: set[tuple[object, tuple[ev.Event, ...]]] = set()

    @property
    def tape(self) -> Tape:
        return self.best[0]

    @property
    def divergence(self) -> Divergence:
        return self.best[1]

    def run(self) -> Shrunk:
        minimal, ended = False, None
        try:
            minimal = self._minimize()
            self._renumber()
        except (KeyboardInterrupt, TargetError) as error:
            ended = error
        return Shrunk(*self.best, self.before, len(self.tried), minimal, ended)

    def _minimize(self) -> bool:
        """Whether the shrink finished within the budget."""
        try:
            self._cut_after_divergence()
            while self._drop_events() or self._simplify() or self._change_two():
                pass
        except _OutOfBudget:
            return False
        return True

    def _cut_after_divergence(self) -> None:
        if self.divergence.event >= 0:
            self._try(replace(self.tape, events=self.tape.events[: self.divergence.event + 1]))
        if not self.tried:
            self.judge(self.tape)
            self._narrow(self.effect())

    def _drop_events(self) -> bool:
        """Drop runs of events, long ones first, from the end; then single ones until none can go."""
        progress = False
        run = max(1, len(self.tape.events) // 2)
        while run:
            start = len(self.tape.events) - run
            while start >= 0:
                events = self.tape.events
                if self._try(replace(self.tape, events=events[:start] + events[start + run :])):
                    progress = True
                    start = min(start, len(self.tape.events))
                start -= run
            run //= 2
        return progress

    def _simplify(self) -> bool:
        """One simpler cache or event; True if there was one."""
        return any(self._try(candidate) for candidate in self._simpler())

    def _simpler(self) -> Iterator[Tape]:
        tape = self.tape
        for config in simpler_configs(tape.config):
            yield replace(tape, config=config)
            if config.page_size < tape.config.page_size:
                yield replace(tape, config=config, events=scaled(tape.events, tape.config.page_size, config.page_size))
        for events in chain(merged(tape.events), joined(tape.events)):
            yield replace(tape, events=events)
        size = tape.config.page_size
        longest = sum(isinstance(event, _ALLOCATING) for event in tape.events) * size
        for request in requests_of(tape.events):
            for tokens in (longest, 2 * size, size):
                yield replace(tape, events=shortened(tape.events, request, tokens))
        for i, event in enumerate(tape.events):
            for simpler in event.simpler():
                yield replace(tape, events=(*tape.events[:i], simpler, *tape.events[i + 1 :]))

    def _change_two(self) -> bool:
        """Where no single change helps, two at once may: a smaller pool without an event that only filled the
        larger one, or two events that need each other. True if there was such a change."""
        return len(self.tape.events) <= _SHORT and any(self._try(candidate) for candidate in self._twofold())

    def _twofold(self) -> Iterator[Tape]:
        tape, events = self.tape, self.tape.events
        for config in simpler_configs(tape.config):
            for i in range(len(events)):
                yield replace(tape, config=config, events=events[:i] + events[i + 1 :])
        for i, j in combinations(range(len(events)), 2):
            yield replace(tape, events=events[:i] + events[i + 1 : j] + events[j + 1 :])

    def _renumber(self) -> None:
        """Requests are numbered in the order in which they appear, if that shows the same."""
        candidate = replace(self.tape, events=renumbered(self.tape.events))
        if repair(candidate.config, candidate.events, self.profile) != candidate.events:
            return  # a declared event may name requests in other fields, and now mean other requests
        divergence = self.judge(candidate)
        if divergence is not None and _identity(divergence, candidate) == self.wanted:
            self.best = candidate, divergence

    def _try(self, candidate: Tape) -> bool:
        """Accept the candidate if it is smaller and diverges in the same way."""
        if unfit(candidate.config, self.profile) or not candidate.config.possible:
            return False
        events = repair(candidate.config, candidate.events, self.profile)
        candidate = replace(candidate, events=events)
        key = (candidate.config, events)
        if key in self.tried or cost(*key) >= cost(self.tape.config, self.tape.events):
            return False
        if len(self.tried) >= self.budget:
            raise _OutOfBudget
        self.tried.add(key)
        divergence = self.judge(candidate)
        effect = self.effect()
        if divergence is None or _identity(divergence, candidate) != self.wanted:
            return False
        if 0 <= divergence.event < len(events) - 1:
            candidate = replace(candidate, events=events[: divergence.event + 1])
        self.best = candidate, divergence
        self._narrow(effect)
        return True

    def _narrow(self, effect: Tape | None) -> None:
        """Ask for no more than took effect; of the event at which it diverges perhaps for as much as before."""
        if effect is None:
            return
        last = self.tape.events[-1:]
        if not self._try(replace(self.tape, events=effect.events)):
            self._try(replace(self.tape, events=effect.events[:-1] + last))


def cost(config: Config, events: tuple[ev.Event, ...]) -> tuple[int, ...]:
    """What a shrink makes smaller: events first, then the cache, then what the events ask for."""
    cache = config.page_size + len(config.layers) * 4 + config.full_size + config.swa_size + config.need_sort
    cache += config.host_full_size + config.host_swa_size
    cache += config.spec_steps + config.spec_topk + config.spec_draft_tokens + config.bigram
    return len(events), cache, sum(map(_weight, events))


def _weight(event: ev.Event) -> int:
    return sum(map(_size, event.arguments().values()))


def _size(value: object) -> int:
    if isinstance(value, tuple):
        return 2 + sum(map(_size, value))
    if isinstance(value, str):
        return STORAGES.index(value) if value in STORAGES else 0
    assert isinstance(value, int)
    return value


def simpler_configs(config: Config) -> Iterator[Config]:
    """Smaller caches: fewer pages, layers, tokens a page."""
    size = config.page_size
    for pages in (1, 2, 3, 4, 6):
        if pages < config.full_pages:
            yield replace(config, full_size=pages * size, swa_size=min(config.swa_size, pages * size))
        if pages < config.swa_pages:
            yield replace(config, swa_size=pages * size)
    for layers in ((SWA,), (FULL, SWA), (SWA, SWA)):
        if len(layers) < len(config.layers):
            yield replace(config, layers=layers)
    for smaller in (2, 4, 16):
        if 1 < smaller < size:
            full, swa = config.full_pages * smaller, config.swa_pages * smaller
            yield replace(config, page_size=smaller, full_size=full, swa_size=swa)
    if config.need_sort:
        yield replace(config, need_sort=False)
    if config.context_len:
        yield replace(config, context_len=0)
        for length in (32, 64, 128):
            if length < config.context_len:
                yield replace(config, context_len=length)
    for switch in config.switches:
        yield replace(config, switches=tuple(it for it in config.switches if it != switch))
    if config.eviction_policy != EVICTION_POLICIES[0]:
        yield replace(config, eviction_policy=EVICTION_POLICIES[0], priorities=())
    if len(config.priorities) > 1:
        yield replace(config, priorities=config.priorities[:-1])
    yield from registry.simpler_configs(config)
    if config.host_full_size:
        yield replace(config, host_full_size=0, host_swa_size=0, write_policy="write_through")
        for slots in (size, 2 * size, 4 * size):
            if slots < config.host_full_size:
                yield replace(config, host_full_size=slots)
            if slots < config.host_swa_size:
                yield replace(config, host_swa_size=slots)
