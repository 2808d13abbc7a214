"""The worker that tries changes of a target.

The target is loaded once, unchanged. Each change is tried in a fork of that process: one function gets other code, then
the tapes that reached the guard are played, then new ones. If a change breaks the process, only the fork ends.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ...core.divergence import Divergence
from ...core.lifetime import end_with_parent
from ...core.tape import Tape
from ...parts.drive import play_tape
from ...parts.hooks import DeclaredError, said
from ...parts.legality import profile_of
from ...run.messages import divergence_to_json
from ...tapes.shrink import shrink
from ...targets.base import Profile
from ...targets.registry import parse
from .corpus import FRESH, load_target, play_one, profiles_by_scope, random_tapes
from .jobs import serve_job
from .patch import Functions, Patch, changed_code

MAX_SHRINKING = 60
"""Tapes that are played to shrink a tape that kills. Only its events are shown, so it need not be minimal."""

LOST_SECONDS = 120.0
"""Time that a fork may take beyond its budget."""


def _try(job: dict[str, Any], change: dict[str, Any], target: Any, functions: Functions) -> dict[str, Any]:
    """Play the tapes with one change made."""
    name = change["module"]
    module = parse(job["target"]).family.module(name)
    code = changed_code(job["sources"][name], change, name)
    if code is None:
        return {"outcome": "not made"}
    patch = functions.versions(module, code) or _later(job, change, target).versions(module, code)
    return {"outcome": "not made"} if patch is None else _Trial(job, change, target, patch).run()


def _later(job: dict[str, Any], change: dict[str, Any], target: Any) -> Functions:
    """Return the functions after a tape has reached the guard: engines load some of their modules late."""
    scopes = profiles_by_scope(target, job["target"])
    for _, number, index in change["tapes"][:1]:
        play_one(target, job["seed"], scopes[number], index)
    return Functions()


class _Trial:
    """A target, a change, and the tapes for it."""

    def __init__(self, job: dict[str, Any], change: dict[str, Any], target: Any, patch: Patch) -> None:
        self._job = job
        self._change = change
        self._target = target
        self._patch = patch
        self._scopes = profiles_by_scope(target, job["target"])
        self._started = time.process_time()

    def run(self) -> dict[str, Any]:
        """Play until a tape shows the change, or the budget is spent."""
        self._patch.put_in()
        tapes = 0
        otherwise: dict[str, Any] = {}
        for number, index, is_new in self._tapes():
            if self._job["seconds"] is not None and self._seconds() > self._job["seconds"]:
                break
            tapes += 1
            try:
                tape, verdict = play_one(self._target, self._job["seed"], self._scopes[number], index)
            except DeclaredError:
                raise
            except Exception as error:
                # The error came outside any event: the target cannot even be built.
                spent = {"tapes": tapes, "seconds": self._seconds()}
                return {"outcome": _lost(self._change), "why": said(error.__cause__ or error), **spent}
            divergence = verdict.divergence
            if divergence is None or (is_new and not self._is_silent(tape, number)):
                continue
            shown = {"scope": number, "tape": index, "divergence": divergence_to_json(divergence)}
            if self._tells(divergence):
                events = self._events(tape, number, divergence)
                return {"outcome": "killed", "tapes": tapes, "seconds": self._seconds(), **shown, "events": events}
            events = [it.kind for it in tape.events[: divergence.event + 1]]
            otherwise = otherwise or {"outcome": "otherwise", **shown, "events": events}
        outcome = "survived" if tapes else "never needed"
        return {"outcome": outcome, "tapes": tapes, "seconds": self._seconds(), **otherwise}

    def _seconds(self) -> float:
        return time.process_time() - self._started

    def _tapes(self) -> Iterator[tuple[int, int, bool]]:
        """Yield the number of the scope, the number of the tape, and whether it is new. Tapes that reached the guard
        come first, then new ones of the same scopes."""
        known = [(number, index, False) for _, number, index in self._change["tapes"]]
        scopes = sorted({number for number, _, _ in known}) or sorted(self._scopes)
        fresh = random_tapes(scopes, range(FRESH, FRESH + self._change["fresh"]))
        return itertools.chain(known, ((number, index, True) for number, index in fresh))

    def _tells(self, divergence: Divergence) -> bool:
        """Return whether a divergence is what the guard prevents. Without an invalidation that is a stale translation;
        another divergence shows only that the statement is needed."""
        stale = divergence.kind == "stale-translation" or divergence.stale_at is not None
        return stale or self._change["kind"] != "invalidation"

    def _is_silent(self, tape: Tape, number: int) -> bool:
        """Return whether the unchanged target plays this tape without divergence."""
        self._patch.take_out()
        silent = self._play(tape, number) is None
        self._patch.put_in()
        return silent

    def _profile(self, tape: Tape, number: int) -> Profile:
        profile = profile_of(tape.config, self._scopes[number])
        assert profile is not None
        return profile

    def _play(self, tape: Tape, number: int) -> Divergence | None:
        return play_tape(tape, self._target, self._profile(tape, number)).divergence

    def _events(self, tape: Tape, number: int, divergence: Divergence) -> list[str]:
        """Return the kinds of the events of a tape that is shrunk for a short time."""
        if divergence.kind == "hang":
            return [it.kind for it in tape.events[: divergence.event + 1]]
        play = partial(self._play, number=number)
        shrunk = shrink(tape, divergence, self._profile(tape, number), play, MAX_SHRINKING)
        return [it.kind for it in shrunk.tape.events]


def _lost(change: dict[str, Any]) -> str:
    """Return the outcome if the target cannot be played at all without a guard. The statement is needed, but that shows
    no stale translation."""
    return "failed" if change["kind"] == "invalidation" else "killed"


def _forked(work: Callable[[], dict[str, Any]], limit: float, change: dict[str, Any]) -> dict[str, Any]:
    """Do `work` in a fork, which is killed after `limit` seconds.

    Raises:
        DeclaredError: a function of the user's file fails.
    """
    out, into = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(out)
        end_with_parent(parent)
        try:
            result = work()
        except DeclaredError as error:
            result = {"error": str(error)}
        except BaseException as error:
            result = {"outcome": "failed", "why": said(error)}
        with os.fdopen(into, "w", encoding="utf-8") as stream:
            json.dump(result, stream)
        os._exit(0)
    os.close(into)
    text = _read(out, limit)
    if text is None:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if text is None:
        return {"outcome": _lost(change), "why": "it does not return", "seconds": limit}
    account: dict[str, Any] = json.loads(text) if text else {"outcome": _lost(change), "why": "its process ended"}
    if "error" in account:
        raise DeclaredError(account["error"])
    return account


def _read(stream: int, limit: float) -> str | None:
    """Read a stream to its end. Return None if that takes too long."""
    deadline = time.monotonic() + limit
    parts: list[bytes] = []
    with os.fdopen(stream, "rb", buffering=0) as source:
        while select.select([source], [], [], max(0.0, deadline - time.monotonic()))[0]:
            part = source.read(65536)
            if not part:
                return b"".join(parts).decode()
            parts.append(part)
    return None


def _prove(job: dict[str, Any]) -> list[dict[str, Any]]:
    target = load_target(job["target"], None)
    if parse(job["target"]).family.loads_late:  # its late modules are loaded before the forks
        for profiles in profiles_by_scope(target, job["target"]).values():
            play_one(target, job["seed"], profiles, 0)
    functions = Functions()
    limit = LOST_SECONDS + (10 * LOST_SECONDS if job["seconds"] is None else job["seconds"])
    return [_forked(partial(_try, job, it, target, functions), limit, it) for it in job["changes"]]


if __name__ == "__main__":
    serve_job(_prove)
