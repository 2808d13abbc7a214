"""Detect an event that does not return, without losing the process that plays it."""

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
"""Seconds of processor time that an event may take in an empty pool. Events of tiny pools take milliseconds, but an
engine may load some of its modules late."""

AGAIN = 0.5
"""The same after an event was stuck in this process: shrinking plays many tapes, and late modules are loaded."""

TICK = 0.1
"""Seconds of processor time between two checks."""

ROWS_A_SECOND = 20_000
"""One additional second for so many rows of all layers, because some checks read each row."""


_patience = PATIENCE


class Stuck(BaseException):
    """The event has not returned. No `Exception`, because an engine that catches those must not continue."""


PASSED_ON = (KeyboardInterrupt, SystemExit, GeneratorExit, Stuck)
"""Exceptions that are no crash. All others are: a panic of an engine's Rust code is no `Exception` either."""


class _Clocked(Protocol):
    now: int


_playing: _Clocked | None = None


def playing() -> int:
    """Index of the event that this process plays; -1 if none."""
    return -1 if _playing is None else _playing.now


@contextmanager
def patience(world: _Clocked, config: Config) -> Iterator[None]:
    """Raise Stuck in an event (``world.now``) that uses too much processor time.

    It is processor time, so that a busy machine causes no hang. An event that waits for ever, or loops outside Python,
    is left to the campaign, which measures wall-clock time.
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
