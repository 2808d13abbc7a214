"""Shrink a diverging tape to a local minimum: no single event can be dropped from the result.

Kept are the class and the check of the divergence, its decisive situation, and the kind of event
that made a loc stale, so that a shrink does not slide to another bug. It asks only whether a
candidate still diverges that way, hence works for any target.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations

from ...models.config import LEVELS
from ..core.divergence import Divergence
from ..core.tape import Tape
from ..parts.allocator import events as ev
from ..parts.legality import unfit
from ..targets.base import Profile, TargetError
from .repair import repair
from .reshape import joined, merged, renumbered, requests_of, scaled, shortened
from .simplify import cost, simpler_configs

__all__ = ["MAX_CANDIDATES", "Effect", "Judge", "Shrunk", "shrink"]

MAX_CANDIDATES = 3000
"""Candidates tried at most; a budget in candidates, not in seconds, keeps the result the same everywhere."""

_SHORT = 16
"""Events up to which all pairs of them are tried."""

Judge = Callable[[Tape], Divergence | None]
"""Plays a legal tape and says where it diverges."""


@dataclass(frozen=True)
class Shrunk:
    """The smallest tape found.

    Attributes:
        before: events of the original tape.
        candidates: tapes that were played.
        minimal: no single event can be dropped; False only if the budget ran out or somebody ended it.
        ended: what ended the shrink before its time: Ctrl-C, or a target that could not be driven on. None otherwise.
    """

    tape: Tape
    divergence: Divergence
    before: int
    candidates: int
    minimal: bool
    ended: KeyboardInterrupt | TargetError | None = None


Effect = Callable[[], Tape | None]
"""The tape that was judged last as it took effect, or None if all of it did."""


def shrink(
    tape: Tape,
    divergence: Divergence,
    profile: Profile,
    judge: Judge,
    budget: int = MAX_CANDIDATES,
    effect: Effect = lambda: None,
) -> Shrunk:
    """Shrink `tape`, which `judge` says diverges with `divergence`; if something ends it early, as far as it came."""
    return _Shrinker(tape, divergence, profile, judge, budget, effect).run()


_ALLOCATING = (ev.Alloc, ev.AllocExtend, ev.AllocExtendSwaTail)


_NUMBER = re.compile(r"\d+")


class _OutOfBudget(Exception):
    pass


def _identity(divergence: Divergence, tape: Tape) -> tuple[str, ...]:
    """What makes a divergence the same bug while events come and go."""
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
        """Whether it came to an end within the budget."""
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
            return  # an event of somebody's file may name requests by other names, and mean others now
        divergence = self.judge(candidate)
        if divergence is not None and _identity(divergence, candidate) == self.wanted:
            self.best = candidate, divergence

    def _try(self, candidate: Tape) -> bool:
        """Take the candidate over if it is smaller and diverges the same way."""
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
