"""Simpler events of a decode node: shorter prompts, fewer new tokens, a transfer in one piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ...core.event import Event
from ..engine.play import MAX_TOKENS
from . import events as de

__all__ = ["DISAGG_SIMPLER"]


def _enqueue(event: de.Enqueue) -> Iterator[Event]:
    length = len(event.tokens)
    for shorter in dict.fromkeys((2, length // 2, length - 1)):
        if 2 <= shorter < length:
            yield replace(event, tokens=event.tokens[:shorter])
    for most in dict.fromkeys((1, event.most // 2, event.most - 1)):
        if 1 <= most < event.most:
            yield replace(event, most=most)
    plain = (1,) * length
    if event.tokens != plain:
        yield replace(event, tokens=plain)


def _transfer(event: de.Transfer) -> Iterator[Event]:
    if event.pages < MAX_TOKENS:
        yield replace(event, pages=MAX_TOKENS)
    if event.token > 1:
        yield replace(event, token=1)


DISAGG_SIMPLER: dict[type[Event], Callable[[Any], Iterator[Event]]] = {
    de.Enqueue: _enqueue,
    de.Transfer: _transfer,
}
"""Event type -> simpler versions of an event, the boldest first."""
