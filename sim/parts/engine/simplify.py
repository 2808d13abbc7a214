"""Simpler engine-level events: shorter prompts, smaller batches, fewer tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ...core.event import Event
from ..graphs.simplify import GRAPH_SIMPLER
from . import events as ee

__all__ = ["ENGINE_SIMPLER"]


def _arrive(event: ee.Arrive) -> Iterator[Event]:
    length = len(event.tokens)
    for shorter in dict.fromkeys((2, length // 2, length - 1)):
        if 2 <= shorter < length:
            yield replace(event, tokens=event.tokens[:shorter])
    plain = (1,) * length
    if event.tokens != plain:
        yield replace(event, tokens=plain)


def _decode(event: ee.Decode) -> Iterator[Event]:
    if len(event.requests) > 1:
        for i in range(len(event.requests)):
            yield replace(event, requests=event.requests[:i] + event.requests[i + 1 :])
    if event.token > 1:
        yield replace(event, token=1)


def _evict(event: ee.Evict) -> Iterator[Event]:
    for full, swa in ((0, event.swa), (event.full, 0), (event.full // 2, event.swa), (event.full, event.swa // 2)):
        if (full, swa) != (event.full, event.swa) and full + swa:
            yield ee.Evict(full, swa)


def _transfer_done(event: ee.TransferDone) -> Iterator[Event]:
    if event.count > 1:
        yield ee.TransferDone(1)


def _prefill(event: ee.Prefill) -> Iterator[Event]:
    for count in dict.fromkeys((1, event.count // 2)):
        if 1 <= count < event.count:
            yield replace(event, count=count)


ENGINE_SIMPLER: dict[type[Event], Callable[[Any], Iterator[Event]]] = {
    ee.Arrive: _arrive,
    ee.Prefill: _prefill,
    ee.Decode: _decode,
    ee.Evict: _evict,
    ee.TransferDone: _transfer_done,
    **GRAPH_SIMPLER,
}
"""Event type -> simpler versions of an event, the boldest first."""
