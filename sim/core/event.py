"""The base of every event, what the numbers in its fields are, and what is simpler."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar

__all__ = ["Event", "Role", "Roles", "Span", "events_in", "smaller", "without_one"]

Span = tuple[int, int, int]
"""``(request, start, stop)``."""


class Role(Enum):
    """What a number in an event's field is."""

    REQUEST = auto()
    REQUESTS = auto()  # a tuple of requests
    POSITION = auto()  # of a request's token; rounded down
    END = auto()  # the position after a span; rounded up
    COUNT = auto()  # of tokens, at least one; rounded up


Roles = Mapping[str, "Role | tuple[Role, ...]"]
"""Field -> the role of its number, or of each number in a row if the field is a tuple of rows."""

Change = Callable[[Role, int, int | None], int]
"""From the role of a number, the number, and the request it belongs to (None if it belongs to none) to a new one."""

_BY_NAME: Roles = MappingProxyType(
    {
        "request": Role.REQUEST,
        "requests": Role.REQUESTS,
        "start": Role.POSITION,
        "target": Role.POSITION,
        "stop": Role.END,
        "count": Role.COUNT,
        "tail": Role.COUNT,
    }
)


@dataclass(frozen=True)
class Event:
    """One step of a tape.

    Attributes:
        kind: its name in tapes and in capabilities.
        words: string field -> what it may say; one that is not listed holds any lower-case name.
    """

    kind: ClassVar[str]
    words: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def arguments(self) -> dict[str, Any]:
        """The event's fields by name, in declaration order."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def changed(self, **values: Any) -> Self:
        """The event with some fields changed."""
        return replace(self, **values)

    def lacks(self, profile: Any) -> str | None:
        """Why a target with this profile cannot execute the event, or None."""
        if self.kind in profile.events:
            return None
        here = "no such event at this level" if profile.level == "engine" else f"no {self.kind}"
        reason: str = profile.missing.get(self.kind, f"this target has {here}")
        return reason

    def say(self, books: Any) -> str:
        """What it does, for people, without its name; `books` are those before it, if its level keeps any."""
        return ", ".join(f"{name} {value}" for name, value in self.arguments().items())

    # Roles

    def roles(self) -> Roles:
        """The roles of its fields. A field with another type than its role asks for has none."""
        return _BY_NAME

    def recast(self, change: Change) -> Self:
        """The event with each number that has a role replaced."""
        values = self.arguments()
        roles = {name: role for name, role in self.roles().items() if name in values}
        owner = values["request"] if "request" in roles and type(values["request"]) is int else None
        changed: dict[str, Any] = {}
        for name, role in roles.items():
            value = values[name]
            if isinstance(role, tuple):
                at = role.index(Role.REQUEST)
                changed[name] = tuple(
                    tuple(change(part, number, row[at]) for part, number in zip(role, row, strict=True))
                    for row in value
                )
            elif role is Role.REQUESTS:
                if isinstance(value, tuple) and all(type(number) is int for number in value):
                    changed[name] = tuple(change(Role.REQUEST, number, None) for number in value)
            elif type(value) is int:
                changed[name] = change(role, value, owner)
        return self.changed(**changed)

    def appended(self) -> tuple[tuple[int, int], ...]:
        """Tokens that the event allocates, as ``(request, count)``."""
        return ()

    def longer(self, request: int, count: int) -> Event:
        """The event with more tokens for a request that it allocates tokens for."""
        return self

    def without(self, request: int, count: int) -> tuple[Event | None, int]:
        """The event with up to `count` tokens fewer for a request, None if nothing is left, and how many are gone."""
        return self, 0

    # What is simpler

    def simpler(self) -> Iterator[Event]:
        """Simpler versions of the event, the boldest first. They need not be legal."""
        values = self.arguments()
        roles = {name: role for name, role in self.roles().items() if name in values}
        if {"start", "stop"} <= roles.keys():
            yield from self.shorter_spans()
            return
        for name, role in roles.items():
            if isinstance(role, tuple) or role is Role.REQUESTS:
                yield from (self.changed(**{name: rows}) for rows in without_one(values[name]))
        for name, role in roles.items():
            if isinstance(role, tuple) and Role.COUNT in role:
                yield from self._shorter_rows(name, role.index(Role.COUNT))
        for role, least in ((Role.COUNT, 1), (Role.POSITION, 0)):
            yield from self.fewer(**{name: least for name in values if roles.get(name) is role})

    def fewer(self, **least: int) -> Iterator[Self]:
        """The event with a smaller number in one of these fields, down to the least one."""
        for name, bound in least.items():
            for value in smaller(getattr(self, name), bound):
                yield self.changed(**{name: value})

    def shorter_spans(self) -> Iterator[Self]:
        """The event's span moves to the front, loses its tail, belongs to an earlier request."""
        values = self.arguments()
        start, stop = values["start"], values["stop"]
        if start:
            yield self.changed(start=0, stop=stop - start)
        for value in smaller(stop, start + 1):
            yield self.changed(stop=value)
        yield from self.fewer(request=0)

    def _shorter_rows(self, name: str, at: int) -> Iterator[Self]:
        rows = getattr(self, name)
        for i, row in enumerate(rows):
            for value in smaller(row[at], 1):
                yield self.changed(**{name: (*rows[:i], (*row[:at], value, *row[at + 1 :]), *rows[i + 1 :])})


E = TypeVar("E", bound=Event)


def events_in(module: str, base: type[E]) -> tuple[type[E], ...]:
    """The event types that a module defines, in the order of their definition; one without a `kind` is a base."""
    return tuple(
        it
        for it in vars(sys.modules[module]).values()
        if isinstance(it, type) and issubclass(it, base) and it.__module__ == module and "kind" in vars(it)
    )


def smaller(value: int, least: int) -> Iterator[int]:
    """Numbers below `value`, boldest first: the least, half, one less."""
    last = None
    for candidate in (least, (value + least) // 2, value - 1):
        if least <= candidate < value and candidate != last:
            last = candidate
            yield candidate


def without_one(items: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The items without one of them, if there are several."""
    if len(items) > 1:
        for i in range(len(items)):
            yield items[:i] + items[i + 1 :]
