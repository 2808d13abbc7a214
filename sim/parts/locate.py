"""Which code of the target made the state wrong: a diverging tape is played again, and its last event is watched.

A check looks after an event and sees that a state is wrong, not since when. Here the same question is asked at calls
and returns of the target's own functions. The place is the call chain at the last moment at which the state turned from
right to wrong. It is a hint for people, and it tells causes apart: two tapes that went wrong in the same function most
likely show one bug.

An event has thousands of such moments, and a look at everything at each of them would take seconds. So the event is
watched several times: its moments are counted, a number of them are looked at, then all between two of those.
"""

from __future__ import annotations

import gc
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import cached_property
from types import FrameType
from typing import Any

from ..core.divergence import Divergence
from ..core.tape import Tape
from ..core.timeouts import PASSED_ON, Stuck
from .calls import is_targets, places
from .check import Check
from .drive import drive_session
from .engine.step import EngineStep
from .registry import parts_of
from .session import EngineSession

__all__ = ["locate"]

MAX_LOOKS = 128
"""Moments that are looked at in one play."""

MANY = 100
"""Calls after which a function counts as one that loops."""

_PAGE = re.compile(r"(host )?(full|SWA) (?:page|slot) (\d+)")

_OF_PAGES = frozenset({"owners", "races"})
"""Checks whose messages name a page of a pool."""

_DRIVERS = f"{__name__.removesuffix('.locate')}."
"""How the names of the modules begin that play events."""

_NOTHING = range(0)

_Wrong = Callable[[EngineStep], bool]


def locate(tape: Tape, target: Any, divergence: Divergence) -> Divergence:
    """A tape's divergence with the call chain in the target's own code that made the state wrong, and with what other
    checks find after the same event.

    The chain is empty if the state turned wrong outside the target's code, or if the tape does not diverge in this way
    any more.
    """
    if divergence.calls or divergence.event < 0 or tape.config.level != "engine":
        return divergence
    if divergence.kind == "hang":
        session = _WatchedSession(target, tape.config, parts_of(tape.config))
        session.watch = loop = _Loop(divergence, session.adapter)
        return replace(divergence, calls=loop.calls if drive_session(tape, session).divergence == divergence else ())
    _watched(tape, target, divergence, _NOTHING)  # an engine may load modules late; after this, moments are the same
    count, found = _watched(tape, target, divergence, _NOTHING)
    if found != divergence or not count.moments:
        return divergence
    stride = -(-count.moments // MAX_LOOKS)
    watch, seen = _watched(tape, target, divergence, range(0, count.moments, stride))
    if stride > 1 and watch.right is not None:
        rest = range(watch.right, min(watch.right + stride + 1, count.moments))
        watch, seen = _watched(tape, target, divergence, rest)
    # Looking may take so long that the event counts as stuck; then not all was seen.
    calls = watch.calls if seen is not None and seen.kind == divergence.kind else ()
    return replace(divergence, calls=calls, consequences=found.consequences)


def _watched(tape: Tape, target: Any, divergence: Divergence, looks: range) -> tuple[_Watch, Divergence | None]:
    """What was seen of the divergence's event at these of its moments, and the tape's divergence."""
    session = _WatchedSession(target, tape.config, parts_of(tape.config))
    session.watch = watch = _Watch(session, divergence, looks)
    return watch, drive_session(tape, session).divergence


class _WatchedSession(EngineSession):
    """A session that watches one event, and asks all checks about a state that is wrong."""

    watch: _Watch | _Loop

    def act(self, step: EngineStep) -> bool:
        if step.index != self.watch.event:
            return super().act(step)
        with self.watch.watching(step):
            return super().act(step)

    def explained(self, step: EngineStep, check: Check, found: Divergence) -> Divergence:
        others = (_asked(it, step) for it in self.checks if it.order >= check.order and it is not check)
        return replace(found, consequences=tuple(it for it in others if it is not None))


def _asked(check: Check, step: EngineStep) -> str | None:
    """What a check finds, with its name; nothing if the state is too broken to be looked at."""
    try:
        found = check.run(step)
    except Exception:
        return None
    return None if found is None else f"{found.kind} ({check.name}): {found.what}"


class _Watch:
    """Looks at the state at some moments of one event.

    Attributes:
        event: the event's index.
        moments: calls and returns of the target's functions so far.
        right: the last moment looked at with the right state before one with a wrong one; None if there was none.
        calls: the call chain at which the state was seen to be wrong after that.
    """

    def __init__(self, session: EngineSession, divergence: Divergence, looks: range) -> None:
        self.event = divergence.event
        self.moments = 0
        self.right: int | None = None
        self.calls: tuple[str, ...] = ()
        self._looks = looks
        self._adapter = session.adapter
        self._wrong = _wrong_page(divergence) or _wrong_by_check(divergence, session)
        self._last_right: int | None = None

    @contextmanager
    def watching(self, step: EngineStep) -> Iterator[None]:
        """Look at this step's moments."""

        def moment(frame: FrameType, kind: str, _argument: object) -> None:
            if kind not in ("call", "return") or not is_targets(frame.f_globals.get("__name__", ""), self._adapter):
                return
            if self.moments in self._looks:
                # At a call, the caller has done what was done since the last moment.
                self._look(step, frame if kind == "return" else frame.f_back)
            self.moments += 1

        collects = gc.isenabled()
        gc.disable()  # it would call finalizers at moments that differ from process to process
        sys.setprofile(moment)
        try:
            yield
        finally:
            sys.setprofile(None)
            if collects:
                gc.enable()

    def _look(self, step: EngineStep, frame: FrameType | None) -> None:
        try:
            wrong = self._wrong(_fresh(step))
        except PASSED_ON:
            raise
        except BaseException:  # a state that cannot be read in the middle of a call says nothing
            return
        if not wrong:
            self._last_right = self.moments
        elif self._last_right is not None:
            self.right, self._last_right = self._last_right, None
            self.calls = self._chain(frame)

    def _chain(self, frame: FrameType | None) -> tuple[str, ...]:
        frames = []
        while frame is not None and not frame.f_globals.get("__name__", "").startswith(_DRIVERS):
            frames.append((frame, frame.f_lineno))
            frame = frame.f_back
        return tuple(places(reversed(frames), self._adapter))


class _Loop:
    """Finds the function that does not return: the outermost one that has called others again and again.

    Attributes:
        event: the event's index.
        calls: the call chain that leads to it. Its own line is that of its definition: where it is stopped is chance.
    """

    def __init__(self, divergence: Divergence, adapter: tuple[str, ...]) -> None:
        self.event = divergence.event
        self.calls: tuple[str, ...] = ()
        self._adapter = adapter

    @contextmanager
    def watching(self, step: EngineStep) -> Iterator[None]:
        """Count the calls that each function on the stack makes, until the event is ended."""
        depth, made = 0, [0]

        def moment(frame: FrameType, kind: str, _argument: object) -> None:
            nonlocal depth
            if kind not in ("call", "return") or not is_targets(frame.f_globals.get("__name__", ""), self._adapter):
                return
            if kind == "return":
                depth -= 1
                return
            made[depth] += 1
            depth += 1
            del made[depth:]
            made.append(0)

        sys.setprofile(moment)
        try:
            yield
        except Stuck as error:
            sys.setprofile(None)
            self._find(error, made)
            raise
        finally:
            sys.setprofile(None)

    def _find(self, error: Stuck, made: Sequence[int]) -> None:
        stack = traceback.walk_tb(error.__traceback__)
        frames = [it for it in stack if is_targets(it[0].f_globals.get("__name__", ""), self._adapter)]
        looping = next((depth for depth, number in enumerate(made) if depth and number >= MANY), len(frames))
        chain = frames[:looping]
        if chain:
            last = chain[-1][0]
            self.calls = tuple(places([*chain[:-1], (last, last.f_code.co_firstlineno)], self._adapter))


def _fresh(step: EngineStep) -> EngineStep:
    """The step with nothing of the target's state read yet."""
    fresh = copy(step)
    for name in [name for name in vars(fresh) if isinstance(getattr(type(fresh), name, None), cached_property)]:
        del vars(fresh)[name]
    return fresh


def _wrong_by_check(divergence: Divergence, session: EngineSession) -> _Wrong:
    """Whether the check that reported it would report the same class now."""
    asked = [check for check in session.checks if check.name == divergence.check]

    def wrong(step: EngineStep) -> bool:
        return any(found is not None and found.kind == divergence.kind for found in (it.run(step) for it in asked))

    return wrong


def _wrong_page(divergence: Divergence) -> _Wrong | None:
    """Whether the page that the message names has not exactly one owner now. A check would not do: it reports the first
    page, and in the middle of an event others have no owner."""
    found = _PAGE.search(divergence.what)
    if divergence.check not in _OF_PAGES or divergence.kind == "out-of-bounds" or found is None:
        return None
    on_host, swa, page = bool(found[1]), found[2] == "SWA", int(found[3])
    return lambda step: (_host_owners if on_host else _device_owners)(step, swa, page) != 1


def _device_owners(step: EngineStep, swa: bool, page: int) -> int:
    """Owners of a page, the free list among them; one more for a request that shares a page the tree does not have."""
    mapping, size = step.mapping, step.world.config.page_size
    listed = (step.free.swa if swa else step.free.full).count(page)
    nodes = sum(page in step.pages(node.swa if swa else node.full) for node in step.tree)
    owners = lost = 0
    for view in step.requests.values():
        row = [mapping[loc] for loc in view.row] if swa else view.row
        own, shared = ({loc // size for loc in part if loc} for part in (row[view.shared :], row[: view.shared]))
        owners += page in own
        lost += page in shared and not nodes and not swa
    flying = step.in_flight[0]
    used = page in step.pages(flying.swa if swa else flying.full)
    count = listed + nodes + owners
    return count + lost + (used and (listed > 0 or not count))


def _host_owners(step: EngineStep, swa: bool, slot: int) -> int:
    """Owners of a host slot, counted from 1 as messages of owners count them."""
    listed = (step.host_free.swa if swa else step.host_free.full).count(slot - 1)
    nodes = sum(slot - 1 in ((node.host_swa if swa else node.host_full) or ()) for node in step.tree)
    flying = step.in_flight[1]
    used = slot - 1 in (flying.swa if swa else flying.full)
    return listed + nodes + (used and (listed > 0 or not nodes))
