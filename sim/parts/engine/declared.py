"""A declared event of the engine level: when it applies, its call, and where it comes in a tape.

What the call did is read from the target's raw state, and every check looks at it as after any other event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ....models.config import Config
from ...core.choices import Choices
from ...core.event import Event, Role, Span
from ...core.tape import Tape
from ...declared import Books, Cache, Model
from ..hooks import FromFile, declared
from .events import EngineEvent
from .step import EngineStep

__all__ = ["DeclaredStep", "with_declared"]

_DECLARED_PERCENT = 80
"""Tapes that have a given declared event."""

_OTHERS = 100
"""How often none comes after an event, beside the weight of each declared event."""


class _Requests(Books):
    """What a scheduler knows of whole requests: which of them have locs, and how many."""

    def __init__(self, config: Config, lengths: dict[int, int], pending: int = 0) -> None:
        self._config = config
        self._lengths = lengths
        self._pending = pending

    @property
    def config(self) -> Config:
        return self._config

    @property
    def requests(self) -> tuple[int, ...]:
        return tuple(sorted(request for request, length in self._lengths.items() if length))

    def length(self, request: int) -> int:
        return self._lengths.get(request, 0)

    @property
    def pending(self) -> int:
        return self._pending

    def mapped(self, request: int) -> tuple[bool, ...]:
        raise _unknown("mapped()")

    @property
    def free_full_pages(self) -> int:
        raise _unknown("free_full_pages")

    @property
    def free_swa_pages(self) -> int:
        raise _unknown("free_swa_pages")

    @property
    def forward(self) -> tuple[Span, ...]:
        return ()


def _unknown(what: str) -> ValueError:
    return ValueError(f"{what} is known at the allocator level only")


class _Meaning(_Requests, Model):
    """At the engine level nothing is foretold: the state after the event is looked at."""

    def __init__(self, books: _Requests) -> None:
        _Requests.__init__(self, books.config, books._lengths, books.pending)
        self.said = []

    def _say(self, word: str, values: dict[str, int]) -> None:
        if word != "repack":
            raise ValueError(f"{word}() is a word of the allocator level; at the engine level say repack() or nothing")


@dataclass(frozen=True)
class DeclaredStep(FromFile, EngineEvent):
    """A call of a method of the tree, the allocator or the pool, between two steps of the scheduler."""

    level = "engine"

    def play(self, step: EngineStep) -> bool:
        target = step.target
        rows = {request: list(view.row) for request, view in target.raw_requests().items()}
        lengths = {request: len(row) for request, row in rows.items()}
        books = _Requests(step.world.config, lengths, target.pending())
        if not self._fits(lengths) or self.refusal(books) is not None:
            return False
        self.told(_Meaning(books))
        step.remember()
        step.world.saw(f"event {self.kind}")

        def act(allocator: Any, pool: Any, tree: Any) -> None:
            self.act(Cache(allocator, pool, rows, tree))

        target.declared(self.kind, act)
        return True

    def _fits(self, lengths: dict[int, int]) -> bool:
        """Whether the requests and positions that it names exist."""
        fits = True

        def look(role: Role, value: int, owner: int | None) -> int:
            nonlocal fits
            if role is Role.REQUEST:
                fits = fits and lengths.get(value, 0) > 0
            elif role in (Role.POSITION, Role.END) and owner is not None:
                fits = fits and value <= lengths.get(owner, 0)
            return value

        self.recast(look)
        return fits


def with_declared(choices: Choices, tape: Tape) -> Tape:
    """The tape with declared events between its own, drawn by weight; the same tape if the file declares none."""
    known = declared("engine")
    events = [event for event in known.values() if choices.chance(_DECLARED_PERCENT)]
    if not events:
        return tape
    return Tape(tape.config, tuple(_mixed(choices, tape, events)), tape.provenance)


def _mixed(choices: Choices, tape: Tape, events: list[Any]) -> Iterator[Event]:
    weights = [_OTHERS, *(event.weight for event in events)]
    lengths: dict[int, int] = {}
    for event in tape.events:
        yield event
        _expect(event, lengths)
        number = choices.weighted(weights)
        drawn = events[number - 1].drawn(choices, _Requests(tape.config, lengths)) if number else None
        if drawn is not None:
            yield drawn


def _expect(event: Event, lengths: dict[int, int]) -> None:
    """What a scheduler expects of requests after an event: whole prompts, until they leave."""
    values = event.arguments()
    request, tokens = values.get("request"), values.get("tokens")
    if isinstance(request, int) and isinstance(tokens, tuple):
        lengths.setdefault(request, len(tokens))
    elif event.kind in ("finish", "abort"):
        lengths.pop(values["request"], None)
    elif event.kind == "results":
        for number in (*values["finished"], *values["aborted"]):
            lengths.pop(number, None)
    elif event.kind == "flush":
        lengths.clear()
