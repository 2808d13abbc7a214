"""Simpler events of captured graphs: smaller graphs, fewer requests, fewer tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ...core.event import Event
from . import events as ge

__all__ = ["GRAPH_SIMPLER", "fewer_requests", "fewer_tokens"]


def _capture(event: ge.Capture) -> Iterator[Event]:
    for size in dict.fromkeys((1, event.size // 2, event.size - 1)):
        if 1 <= size < event.size:
            yield replace(event, size=size)


def _replay(event: ge.Replay) -> Iterator[Event]:
    yield from fewer_requests(event)
    if event.token > 1:
        yield replace(event, token=1)


def _chunk(event: ge.ReplayChunk) -> Iterator[Event]:
    for count in dict.fromkeys((1, event.count // 2)):
        if 1 <= count < event.count:
            yield replace(event, count=count)


def fewer_tokens(event: Any) -> Iterator[Event]:
    """A proposal for one request fewer, of one token fewer, or of ones only."""
    yield from fewer_requests(event)
    if len(event.tokens) > 1:
        yield replace(event, tokens=event.tokens[:-1])
    plain = (1,) * len(event.tokens)
    if event.tokens != plain:
        yield replace(event, tokens=plain)


def _verify(event: ge.Verify) -> Iterator[Event]:
    yield from fewer_requests(event)
    if event.accepted:
        yield replace(event, accepted=0)


def fewer_requests(event: Any) -> Iterator[Event]:
    """The event for one request fewer."""
    if len(event.requests) > 1:
        for i in range(len(event.requests)):
            yield replace(event, requests=event.requests[:i] + event.requests[i + 1 :])


GRAPH_SIMPLER: dict[type[Event], Callable[[Any], Iterator[Event]]] = {
    ge.Capture: _capture,
    ge.Replay: _replay,
    ge.ReplayChunk: _chunk,
    ge.Draft: fewer_tokens,
    ge.Verify: _verify,
}
"""Event type -> simpler versions of an event, the boldest first."""
