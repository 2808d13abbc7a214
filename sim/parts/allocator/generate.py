"""Tapes out of choices: a cache, habits, then one legal event after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.choices import Choices
from ...core.event import Event
from ...core.tape import Tape
from ...targets.base import Profile
from ..hooks import declared
from .draws import Draws, Habits
from .event import AllocatorEvent
from .forwards import Translate, WriteKv
from .ledger import Ledger
from .release import FreeGroupBegin, FreeGroupEnd, FreeSwa
from .swarm import draw_config, draw_habits

__all__ = ["generate"]

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
    config, profile = draw_config(choices, profiles)
    habits = draw_habits(choices, config, profile)
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
