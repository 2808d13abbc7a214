"""Changes to a whole tape that single events cannot make: rename, merge, shorten, scale, repair.

All but `repair` return the events of another tape, not necessarily a legal one; it is repaired before it is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import add
from typing import Any

from ...models.config import Config
from ..core.event import Event, Role
from ..parts.allocator.ledger import Ledger
from ..targets.base import Profile

__all__ = ["joined", "merged", "renumbered", "repair", "requests_of", "scaled", "shortened"]

_PLACES = (Role.POSITION, Role.END)


def renumbered(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """The same events with requests numbered in the order in which they appear."""
    names: dict[int, int] = {}

    def rename(role: Role, value: int, owner: int | None) -> int:
        return names.setdefault(value, len(names)) if role is Role.REQUEST else value

    return tuple(event.recast(rename) for event in events)


def requests_of(events: tuple[Event, ...]) -> list[int]:
    """The requests that tokens are allocated for, in the order in which they appear."""
    return list(dict.fromkeys(request for event in events for request, _ in event.appended()))


def shortened(events: tuple[Event, ...], request: int, tokens: int) -> tuple[Event, ...]:
    """The same events with a request that never had its first `tokens` tokens."""

    def place(position: int) -> int:
        return max(0, position - tokens)

    due = tokens
    kept: list[Event] = []
    for event in events:
        rest, taken = event.without(request, due)
        due -= taken
        if rest is not None:
            kept.append(_moved(rest, request, request, place))
    return tuple(kept)


def _moved(event: Event, request: int, into: int, place: Callable[[int], int]) -> Event:
    """The event with a request's tokens as those of `into`, at other places."""

    def move(role: Role, value: int, owner: int | None) -> int:
        if owner != request:
            return value
        if role is Role.REQUEST:
            return into
        return place(value) if role in _PLACES else value

    return event.recast(move)


def merged(events: tuple[Event, ...]) -> Iterator[tuple[Event, ...]]:
    """One event fewer: a request gets at its first allocation what it now gets at a later one."""
    sizes = [dict(event.appended()) for event in events]
    for later, grown in enumerate(sizes):
        for request, count in grown.items():
            first = next(i for i, size in enumerate(sizes) if request in size)
            if first < later and len(grown) == 1:
                longer = events[first].longer(request, count)
                yield *events[:first], longer, *events[first + 1 : later], *events[later + 1 :]


def joined(events: tuple[Event, ...]) -> Iterator[tuple[Event, ...]]:
    """One request fewer: its tokens are an earlier one's further tokens. Requests that grow later are left alone."""
    sizes = [dict(event.appended()) for event in events]
    total = {request: [size[request] for size in sizes if request in size] for request in requests_of(events)}
    once = [request for request, counts in total.items() if len(counts) == 1]
    for i, first in enumerate(once):
        (length,) = total[first]
        for other in once[i + 1 :]:
            (count,) = total[other]
            rest = [event for event in (event.without(other, count)[0] for event in events) if event is not None]
            grown = (event.longer(first, count) if first in dict(event.appended()) else event for event in rest)
            yield tuple(_moved(event, other, first, partial(add, length)) for event in grown)


def scaled(events: tuple[Event, ...], pages_of: int, smaller: int) -> tuple[Event, ...]:
    """The same events for a page size of `smaller` tokens instead of `pages_of`."""

    def scale(role: Role, value: int, owner: int | None) -> int:
        if role is Role.REQUEST:
            return value
        return value * smaller // pages_of if role is Role.POSITION else -(-value * smaller // pages_of)

    return tuple(event.recast(scale) for event in events)


def repair(config: Config, events: Iterable[Any], profile: Profile) -> tuple[Event, ...]:
    """The events that remain legal on this cache, each as close to the given one as possible.

    Spans are clipped to what is there, and what still breaks a contract is dropped. A shrinker may then delete or
    change events freely; what depended on them follows.
    """
    if config.level == "engine":
        return tuple(event for event in events if event.lacks(profile) is None)
    ledger = Ledger(config, profile.per_forward)
    kept: list[Event] = []
    for event in events:
        clipped = event.clip(ledger)
        if clipped is None or clipped.lacks(profile) or clipped.violation(ledger):
            continue
        ledger.apply(clipped)
        kept.append(clipped)
    return tuple(kept)
