"""Tapes out of choices: a cache, habits, then one legal event after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...core.choices import Choices
from ...core.tape import Tape
from ...targets.base import Profile
from ..events_file import declared
from ..hooks import draw
from . import events as ev
from .contracts import violation
from .draws import Parts
from .ledger import Ledger
from .swarm import Habits, draw_config, draw_habits

__all__ = ["generate"]

_PATIENCE = 4
"""Proposals a tape may make for each event it wants; not every one fits."""

_ALLOCATING = frozenset({ev.Alloc.kind, ev.AllocExtend.kind, ev.AllocDecode.kind, ev.AllocExtendSwaTail.kind})
"""What hands out slots."""

_OWN_TIMES = 3
"""How much more often than one of those that change the mapping of a running batch an event of somebody's file is
tried there: that is where an answer can outlive it."""

_BETWEEN_PERCENT = 25
"""Events of somebody's file that come between two questions for the same locs, whatever else asks."""

_CHANGING = frozenset({ev.FreeSwa.kind, ev.SetMapping.kind, ev.RegisterMapping.kind, ev.Translate.kind})
"""What changes the mapping of a running batch, and what asks for it again."""

_GROUPED = (ev.FreeSwa.kind, ev.FreeSwa.kind, ev.FreeGroupEnd.kind)
"""What a group that is opened under a running batch is for; anything but giving back waits for its end."""


def generate(choices: Choices, profiles: Sequence[Profile]) -> Tape:
    """A legal tape for a target with these profiles. It depends on nothing but the choices."""
    config, profile = draw_config(choices, profiles)
    habits = draw_habits(choices, config, profile)
    ledger = Ledger(config, profile.per_forward)
    author = _Author(choices, ledger, habits)
    tape: list[ev.Event] = []
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


class _Author(Parts):
    """Proposes events that suit the ledger; what breaks a contract is dropped."""

    def __init__(self, choices: Choices, ledger: Ledger, habits: Habits) -> None:
        super().__init__(choices, ledger, habits)
        self.planned: list[ev.Event] = []
        self.allocating = tuple(kind for kind in habits.kinds if kind in _ALLOCATING)
        own = tuple(kind for kind in habits.kinds if kind in declared())
        self.changing = tuple(kind for kind in habits.kinds if kind in _CHANGING) + own * _OWN_TIMES
        self.grouped = tuple(kind for kind in _GROUPED if kind in habits.kinds)
        if {ev.FreeSwa.kind, ev.FreeGroupBegin.kind} <= {*habits.kinds}:
            self.changing += (ev.FreeGroupBegin.kind,)

    def propose(self) -> ev.Event | None:
        """A legal event, or None if the one that came to mind does not fit now."""
        event = self.planned.pop(0) if self.planned else self.drawn()
        if event is None or violation(self.ledger, event) is not None:
            return None
        return event

    def drawn(self) -> ev.Event | None:
        """The next event, whether or not it is legal."""
        kind = self.kind()
        own = declared().get(kind)
        if own is None:
            return _PROPOSE[kind](self)
        event = draw(own, self.choices, self.ledger)
        request = self.live() if ev.Translate.kind in self.habits.kinds else None
        if event is None or request is None or not self.choices.chance(_BETWEEN_PERCENT):
            return event
        asked = self.kept(request)
        self.planned = [event, asked]
        return asked

    def kind(self) -> str:
        """The kind of the next event. A running forward goes on, or its mapping changes under it; one whose
        slots were given back is watched while they are handed out again."""
        forward = self.ledger.forward
        if forward is not None and self.ledger.group_open:
            if self.grouped and self.choices.chance(60):
                return self.choices.pick(self.grouped)
        elif forward is not None:
            if forward.broken and self.choices.chance(70):
                asks = self.choices.chance(50) and ev.Translate.kind in self.habits.kinds
                return ev.Translate.kind if asks else self.choices.pick(self.allocating)
            if not forward.broken and self.choices.chance(40):
                return ev.WriteKv.kind
            if not forward.frozen and forward.next_layer and self.changing and self.choices.chance(40):
                return self.choices.pick(self.changing)
        return self.habits.kinds[self.choices.weighted(self.habits.weights)]

    # Events

    def alloc(self) -> ev.Event:
        return ev.Alloc(self.request(), self.count())

    def alloc_extend(self) -> ev.Event:
        requests = self.several(range(self.habits.requests))
        return ev.AllocExtend(tuple((request, self.count()) for request in requests))

    def alloc_decode(self) -> ev.Event | None:
        ready = [r for r in range(self.habits.requests) if self.ledger.length(r) and self.ledger.appendable(r)]
        return ev.AllocDecode(self.several(ready)) if ready else None

    def alloc_extend_swa_tail(self) -> ev.Event:
        count = self.count()
        if self.choices.chance(50):
            count += self.size
        head = self.choices.integer(0, count // self.size) * self.size
        return ev.AllocExtendSwaTail(self.request(), count, count - head)

    def free(self) -> ev.Event | None:
        request = self.live()
        if request is None:
            return None
        pages = self.ledger.config.pages(self.ledger.length(request))
        start = self.choices.integer(0, pages - 1) * self.size if self.choices.chance(40) else 0
        return ev.Free(request, start)

    def free_swa(self) -> ev.Event | None:
        request = self.subject()
        if request is None:
            return None
        length = self.ledger.length(request)
        if self.size > 1 and self.choices.chance(self.habits.partial):
            start = self.choices.integer(0, length - 1)
            return ev.FreeSwa(request, start, self.choices.integer(start + 1, length))
        span = self.pages(request, True)
        if span is None:
            return None
        return ev.FreeSwa(request, *span)

    def free_group_begin(self) -> ev.Event:
        return ev.FreeGroupBegin()

    def free_group_end(self) -> ev.Event | None:
        return ev.FreeGroupEnd() if self.ledger.group_open or self.habits.idle_ends else None

    def set_mapping(self) -> ev.Event | None:
        request = self.subject()
        span = self.pages(request, False) if request is not None else None
        return ev.SetMapping(request, *span) if request is not None and span else None

    def register_mapping(self) -> ev.Event | None:
        request = self.subject()
        if request is None or self.choices.chance(10):
            return ev.RegisterMapping(0, 0, 0)
        span = self.pages(request, True)
        return ev.RegisterMapping(request, *span) if span else None

    def backup(self) -> ev.Event:
        return ev.Backup()

    def restore(self) -> ev.Event:
        return ev.Restore()

    def clear(self) -> ev.Event:
        return ev.Clear()

    def begin_forward(self) -> ev.Event | None:
        ready = [r for r in range(self.habits.requests) if self.ledger.length(r)]
        if not ready:
            return None
        spans = tuple((request, *self.span(request)) for request in self.several(ready))
        storage = self.choices.pick(self.habits.storages)
        offset = self.choices.pick((1, self.habits.unit, 16)) if storage == "view" else 0
        return ev.BeginForward(spans, storage, offset, self.choices.chance(self.habits.precomputed))

    def write_kv(self) -> ev.Event | None:
        forward = self.ledger.forward
        return ev.WriteKv(forward.next_layer) if forward is not None else None

    def read_kv(self) -> ev.Event | None:
        forward = self.ledger.forward
        if forward is None or not forward.next_layer:
            return None
        return ev.ReadKv(self.choices.integer(0, forward.next_layer - 1))

    def translate(self) -> ev.Event | None:
        forward = self.ledger.forward
        if forward is not None and self.choices.chance(90 if forward.broken else 60):
            start, stop = 0, forward.tokens
            if self.choices.chance(10 if forward.broken else 40):
                start = self.choices.integer(0, stop - 1)
                stop = self.choices.integer(start + 1, stop)
            return ev.Translate("batch", 0, start, stop)
        request = self.live()
        if request is None:
            return None
        source = self.choices.pick(ev.SOURCES[1:])
        if source == "kept":
            return self.kept(request)
        return ev.Translate(source, request, *self.span(request))

    def kept(self, request: int) -> ev.Event:
        """The same locs again and again, such as those of a shared prefix."""
        return ev.Translate("kept", request, 0, min(self.ledger.length(request), self.habits.unit))

    def end_forward(self) -> ev.Event:
        return ev.EndForward()

    def cpu_copy(self) -> ev.Event | None:
        request = self.live()
        if request is None:
            return None
        return ev.CpuCopy(self.choices.integer(0, 2), request, *self.span(request))

    def load_cpu_copy(self) -> ev.Event | None:
        if not self.ledger.copies:
            return None
        copy = self.choices.pick(sorted(self.ledger.copies))
        room = [r for r in range(self.habits.requests) if self.ledger.length(r) >= self.ledger.copies[copy]]
        if not room:
            return None
        request = self.choices.pick(room)
        last = self.ledger.length(request) - self.ledger.copies[copy]
        return ev.LoadCpuCopy(copy, request, self.choices.pick((0, last)))

    def move(self) -> ev.Event | None:
        request = self.live()
        if request is None or self.ledger.length(request) < 2:
            return None
        count = self.choices.integer(1, self.ledger.length(request) // 2)
        last = self.ledger.length(request) - count
        return ev.Move(request, self.choices.integer(0, last), self.choices.integer(0, last), count)


_PROPOSE: dict[str, Callable[[_Author], ev.Event | None]] = {kind: getattr(_Author, kind) for kind in ev.KINDS}
