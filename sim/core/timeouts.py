"""Notice that one event does not come back, without losing the process it is played in."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from ...models.config import Config
from .divergence import Divergence
from .event import Event

__all__ = ["PASSED_ON", "Stuck", "hang", "patience", "playing"]

PATIENCE = 3.0
"""Seconds of processor time an event may take in a pool of no size. Events of tiny pools take milliseconds, but an
engine may load a part of itself late."""

AGAIN = 0.5
"""The same once an event was stuck in this process: shrinking asks many times, and what loads late is there."""

TICK = 0.1
"""Seconds of processor time between two looks."""

ROWS_A_SECOND = 20_000
"""One second more for so many rows of all layers: some checks look at each of them."""


_patience = PATIENCE


class Stuck(BaseException):
    """The event has not come back. No `Exception`: an engine that catches those must not go on."""


PASSED_ON = (KeyboardInterrupt, SystemExit, GeneratorExit, Stuck)
"""What is raised and is no crash. Anything else is one: a panic of an engine's Rust code is no `Exception` either."""


class _Clocked(Protocol):
    now: int


_playing: _Clocked | None = None


def playing() -> int:
    """Index of the event that is played in this process; -1 if none is."""
    return -1 if _playing is None else _playing.now


@contextmanager
def patience(world: _Clocked, config: Config) -> Iterator[None]:
    """Raise Stuck in an event (``world.now``) that uses up the processor for too long.

    Processor time, so that a busy machine makes nothing a hang. Whoever waits for something that
    never comes, or loops outside Python, is left to the campaign, which looks at the wall clock.
    """
    global _playing
    _playing = world
    try:
        if threading.current_thread() is threading.main_thread():
            with _ticking(world, config):
                yield
        else:
            yield
    finally:
        _playing = None


@contextmanager
def _ticking(world: _Clocked, config: Config) -> Iterator[None]:
    rows = (config.full_size + config.host_full_size) * len(config.layers)
    limit = (_patience + rows / ROWS_A_SECOND) / TICK
    last, ticks = world.now, 0

    def tick(_signal: int, _frame: FrameType | None) -> None:
        global _patience
        nonlocal last, ticks
        ticks = ticks + 1 if world.now == last else 0
        last = world.now
        if ticks > limit:
            _patience = AGAIN
            raise Stuck

    before = signal.signal(signal.SIGVTALRM, tick)
    signal.setitimer(signal.ITIMER_VIRTUAL, TICK, TICK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


def hang(index: int, event: Event) -> Divergence:
    """The divergence of an event that was stuck."""
    return Divergence("hang", "hang", index, f"{event.kind} does not come back, and uses the processor all the time")
