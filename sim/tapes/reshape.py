"""Changes to a whole tape that single events cannot make: rename, merge, shorten, scale.

Each returns the events of another tape, not necessarily a legal one; it is repaired before it is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from ..parts.allocator import events as ev

__all__ = ["joined", "merged", "renumbered", "requests_of", "scaled", "shortened"]

_POSITIONS = frozenset({"start", "stop", "target"})


def renumbered(events: tuple[ev.Event, ...]) -> tuple[ev.Event, ...]:
    """The same events with requests numbered in the order in which they appear."""
    names: dict[int, int] = {}

    def name(request: int) -> int:
        return names.setdefault(request, len(names))

    return tuple(_rename(event, name) for event in events)


def requests_of(events: tuple[ev.Event, ...]) -> list[int]:
    """The requests that tokens are allocated for, in the order in which they appear."""
    return list(dict.fromkeys(request for event in events for request, _ in _allocated(event)))


def shortened(events: tuple[ev.Event, ...], request: int, tokens: int) -> tuple[ev.Event, ...]:
    """The same events with a request that never had its first `tokens` tokens."""
    due = tokens
    kept: list[ev.Event] = []
    for event in events:
        if isinstance(event, ev.Alloc | ev.AllocExtendSwaTail) and event.request == request and due:
            taken = min(due, event.count)
            due -= taken
            if event.count > taken:
                kept.append(replace(event, count=event.count - taken))
        elif isinstance(event, ev.AllocExtend) and request in dict(event.items) and due:
            taken = min(due, dict(event.items)[request])
            due -= taken
            items = [(r, count - taken if r == request else count) for r, count in event.items]
            items = [item for item in items if item[1]]
            if items:
                kept.append(replace(event, items=tuple(items)))
        else:
            kept.append(_shift(event, request, tokens))
    return tuple(kept)


def _shift(event: ev.Event, request: int, tokens: int) -> ev.Event:
    def back(position: int) -> int:
        return max(0, position - tokens)

    if isinstance(event, ev.BeginForward):
        spans = [(r, back(start), back(stop)) if r == request else (r, start, stop) for r, start, stop in event.spans]
        return replace(event, spans=tuple(spans))
    if getattr(event, "source", None) == "batch" or dict(_numbers(event)).get("request") != request:
        return event
    positions = {name: back(value) for name, value in _numbers(event) if name in _POSITIONS}
    if isinstance(event, ev.Move):
        positions["source"] = back(event.source)
    return event.changed(**positions)


def _rename(event: ev.Event, name: Callable[[int], int]) -> ev.Event:
    if isinstance(event, ev.AllocExtend):
        return replace(event, items=tuple((name(request), count) for request, count in event.items))
    requests = event.arguments().get("requests")
    if isinstance(requests, tuple) and all(type(request) is int for request in requests):
        return event.changed(requests=tuple(map(name, requests)))
    if isinstance(event, ev.BeginForward):
        return replace(event, spans=tuple((name(request), start, stop) for request, start, stop in event.spans))
    if getattr(event, "source", None) == "batch" or "request" not in dict(_numbers(event)):
        return event
    return event.changed(request=name(event.arguments()["request"]))


def _numbers(event: ev.Event) -> Iterator[tuple[str, int]]:
    """Those of an event's fields that are numbers; what a file declares may call anything by these names."""
    return ((name, value) for name, value in event.arguments().items() if type(value) is int)


def merged(events: tuple[ev.Event, ...]) -> Iterator[tuple[ev.Event, ...]]:
    """One event fewer: a request gets at its first allocation what it now gets at a later one."""
    sizes = [dict(_allocated(event)) for event in events]
    for later, grown in enumerate(sizes):
        for request, count in grown.items():
            first = next(i for i, size in enumerate(sizes) if request in size)
            if first < later and len(grown) == 1:
                yield (
                    *events[:first],
                    _grow(events[first], request, count),
                    *events[first + 1 : later],
                    *events[later + 1 :],
                )


def joined(events: tuple[ev.Event, ...]) -> Iterator[tuple[ev.Event, ...]]:
    """One request fewer: its tokens are an earlier one's further tokens. Requests that grow later are left alone."""
    sizes = [dict(_allocated(event)) for event in events]
    once = [request for request in requests_of(events) if sum(request in size for size in sizes) == 1]
    for i, first in enumerate(once):
        length = next(size[first] for size in sizes if first in size)
        for other in once[i + 1 :]:
            count = next(size[other] for size in sizes if other in size)
            rest = [event for event in (_without(event, other) for event in events) if event is not None]
            grown = (_grow(event, first, count) if first in dict(_allocated(event)) else event for event in rest)
            yield tuple(_append(event, other, first, length) for event in grown)


def _without(event: ev.Event, request: int) -> ev.Event | None:
    """The event without what it allocates for a request; None if nothing is left."""
    if request not in dict(_allocated(event)):
        return event
    if isinstance(event, ev.AllocExtend) and len(event.items) > 1:
        return replace(event, items=tuple(item for item in event.items if item[0] != request))
    return None


def _append(event: ev.Event, request: int, into: int, length: int) -> ev.Event:
    """The event with tokens of a request as those of another from `length` on."""
    if isinstance(event, ev.BeginForward):
        spans = [(into, length + a, length + b) if r == request else (r, a, b) for r, a, b in event.spans]
        return replace(event, spans=tuple(spans))
    if getattr(event, "source", None) == "batch" or dict(_numbers(event)).get("request") != request:
        return event
    values = {name: length + value for name, value in _numbers(event) if name in _POSITIONS}
    if isinstance(event, ev.Move):
        values["source"] = length + event.source
    return event.changed(request=into, **values)


def _allocated(event: ev.Event) -> Iterable[tuple[int, int]]:
    if isinstance(event, ev.AllocExtend):
        return event.items
    if isinstance(event, ev.AllocDecode):
        return [(request, 1) for request in event.requests]
    if isinstance(event, ev.Alloc | ev.AllocExtendSwaTail):
        return [(event.request, event.count)]
    return ()


def _grow(event: ev.Event, request: int, count: int) -> ev.Event:
    if isinstance(event, ev.AllocExtend):
        return replace(event, items=tuple((r, size + count if r == request else size) for r, size in event.items))
    if isinstance(event, ev.Alloc):
        return replace(event, count=event.count + count)
    if isinstance(event, ev.AllocExtendSwaTail):
        return replace(event, count=event.count + count, tail=event.tail + count)
    return event


def scaled(events: tuple[ev.Event, ...], pages_of: int, smaller: int) -> tuple[ev.Event, ...]:
    """The same events for a page size of `smaller` tokens instead of `pages_of`."""

    def down(value: int) -> int:
        return value * smaller // pages_of

    def up(value: int) -> int:
        return -(-value * smaller // pages_of)

    return tuple(_scale(event, down, up) for event in events)


def _scale(event: ev.Event, down: Callable[[int], int], up: Callable[[int], int]) -> ev.Event:
    if isinstance(event, ev.AllocExtend):
        return replace(event, items=tuple((request, up(count)) for request, count in event.items))
    if isinstance(event, ev.BeginForward):
        return replace(event, spans=tuple((request, down(start), up(stop)) for request, start, stop in event.spans))
    rounding = {"count": up, "tail": up, "stop": up, "start": down, "target": down}
    values = {name: rounding[name](value) for name, value in _numbers(event) if name in rounding}
    if isinstance(event, ev.Move):
        values["source"] = down(event.source)
    return event.changed(**values)
