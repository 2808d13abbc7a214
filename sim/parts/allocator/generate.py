"""Tapes out of choices: a cache, habits, then one legal event after the other.

Each tape draws its own cache, its own subset of events and its own habits: one in which everything is possible rarely
goes deep anywhere (Groce et al., "Swarm Testing", ISSTA 2012). Pools are small on purpose, and sizes come back: stale
answers hide where slots, storage and lengths are used again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....models.config import FULL, SWA, Config
from ...core.choices import Choices
from ...core.event import Event
from ...core.tape import Tape
from ...targets.base import Profile
from ..hooks import declared
from ..pins import draw_pinned, fit_pools
from .draws import Draws, Habits
from .event import AllocatorEvent
from .events import EVENTS
from .forwards import Translate, WriteKv
from .ledger import Ledger
from .release import FreeGroupBegin, FreeGroupEnd, FreeSwa

__all__ = ["draw_config", "generate"]

_DECLARED_PERCENT = 80
"""Tapes that have a given event of somebody's file in the swarm: whoever declares one wants to see it."""


def draw_config(choices: Choices, profile: Profile) -> Config:
    """A small cache that a target with this profile can hold."""
    size = choices.pick(profile.page_sizes)
    full_pages = choices.pick((2, 3, 4, 6, 8, 12) if size > 1 else (3, 4, 6, 8, 12, 24))
    swa_pages = max(2, full_pages - choices.pick((0, 1, full_pages // 4, full_pages // 2)))
    if profile.all_swa:
        layers: tuple[str, ...] = (SWA,) * choices.pick((2, 3))
    else:
        layers = choices.pick(((FULL, SWA), (SWA, SWA), (FULL, SWA, SWA), (SWA, FULL, SWA)))
    full_pages, swa_pages = fit_pools(profile, size, 0, full_pages, swa_pages)
    return Config(
        pool=profile.pool,
        policy=choices.pick(profile.policies),
        page_size=size,
        full_size=full_pages * size,
        swa_size=swa_pages * size,
        layers=layers,
        window=max(1, choices.pick((size, 2 * size, size // 2, 4))),
        need_sort=choices.chance(40),
        dtype=choices.pick(profile.dtypes),
    )


def _draw_habits(choices: Choices, config: Config, profile: Profile) -> Habits:
    """A subset of the profile's events, with a habit for each free decision."""
    size = config.page_size
    wanted: list[Any] = []
    for event in EVENTS:
        if event.kind not in profile.events or not event.fits_pages(size):
            continue
        drawn = event.always or choices.chance(60)
        if drawn if event.follows is None else event.follows in wanted:
            wanted.append(event)
    wanted += [event for event in declared("allocator").values() if choices.chance(_DECLARED_PERCENT)]
    storages = choices.pick((("reused", "view"), ("fresh", "reused", "view"), ("reused",), ("fresh",)))
    return Habits(
        length=choices.pick((16, 32, 64, 128)),
        events=tuple(wanted),
        weights=tuple(event.weight for event in wanted),
        requests=choices.pick((2, 3, 4, 6)),
        unit=choices.pick((1, 2, 3) if size == 1 else (size, 2 * size, size + 1, 1, max(1, size - 1))),
        storages=storages,
        partial=choices.pick((0, 0, 0, 30)),
        idle_ends=choices.chance(15),
        precomputed=choices.pick((0, 30, 60)) if profile.precomputed else 0,
    )


_PATIENCE = 4
"""Proposals a tape may make for each event it wants; not every one fits."""

_OWN_TIMES = 3
"""How much more often than one of those that change the mapping of a running batch an event of somebody's file is
tried there: that is where an answer can outlive it."""

_BETWEEN_PERCENT = 25
"""Events of somebody's file that come between two questions for the same locs, whatever else asks."""

_GROUPED: tuple[type[AllocatorEvent], ...] = (FreeSwa, FreeSwa, FreeGroupEnd)
"""What a group that is opened under a running batch is for; anything but giving back waits for its end."""


def generate(choices: Choices, profiles: Sequence[Profile]) -> Tape:
    """A legal tape for a target with these profiles. It depends on nothing but the choices."""
    profile = choices.pick(profiles)
    config = draw_pinned(profile, lambda: draw_config(choices, profile))
    habits = _draw_habits(choices, config, profile)
    ledger = Ledger(config, profile.per_forward)
    author = _Author(choices, ledger, habits)
    tape: list[Event] = []
    for _ in range(_PATIENCE * habits.length):
        if not choices.more():
            break
        event = author.propose()
        if event is None:
            continue
        ledger.apply(event)
        tape.append(event)
        if len(tape) == habits.length:
            break
    return Tape(config, tuple(tape))


class _Author(Draws):
    """Proposes events that suit the ledger; what breaks a contract is dropped."""

    def __init__(self, choices: Choices, ledger: Ledger, habits: Habits) -> None:
        super().__init__(choices, ledger, habits)
        self.planned: list[Any] = []
        events = habits.events
        self.allocating = tuple(event for event in events if event.allocates)
        own = tuple(event for event in events if event.kind in declared())
        changing = tuple(event for event in events if event not in own and (event.remaps or event is Translate))
        self.changing: tuple[type[AllocatorEvent], ...] = changing + own * _OWN_TIMES
        self.grouped = tuple(event for event in _GROUPED if event in events)
        if {FreeSwa, FreeGroupBegin} <= {*events}:
            self.changing += (FreeGroupBegin,)

    def propose(self) -> AllocatorEvent | None:
        """A legal event, or None if the one that came to mind does not fit now."""
        event = self.planned.pop(0) if self.planned else self.drawn()
        if event is None or event.violation(self.ledger) is not None:
            return None
        return event

    def drawn(self) -> AllocatorEvent | None:
        """The next event, whether or not it is legal."""
        kind = self.kind()
        event = kind.propose(self)
        if kind.kind not in declared():
            return event
        request = self.live() if Translate in self.habits.events else None
        if event is None or request is None or not self.choices.chance(_BETWEEN_PERCENT):
            return event
        asked = Translate.kept(self, request)
        self.planned = [event, asked]
        return asked

    def kind(self) -> type[AllocatorEvent]:
        """The kind of the next event. A running forward goes on, or its mapping changes under it; one whose
        slots were given back is watched while they are handed out again."""
        forward = self.ledger.forward
        if forward is not None and self.ledger.group_open:
            if self.grouped and self.choices.chance(60):
                return self.choices.pick(self.grouped)
        elif forward is not None:
            if forward.broken and self.choices.chance(70):
                asks = self.choices.chance(50) and Translate in self.habits.events
                return Translate if asks else self.choices.pick(self.allocating)
            if not forward.broken and self.choices.chance(40):
                return WriteKv
            if not forward.frozen and forward.next_layer and self.changing and self.choices.chance(40):
                return self.choices.pick(self.changing)
        event: type[AllocatorEvent] = self.habits.events[self.choices.weighted(self.habits.weights)]
        return event
