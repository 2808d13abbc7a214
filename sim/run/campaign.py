"""A campaign: many tapes within a budget. Its findings do not depend on the number of workers.

Tape `i` of seed `s` is the same everywhere, so a campaign is a set of tape numbers. Workers take chunks of them. Their
answers are put in the order of tape numbers before anything is counted or decided.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from typing import Any

from ...models.config import LEVELS
from ..core.choices import seeded
from ..core.divergence import Divergence
from ..core.tape import Tape
from ..parts.generate import generate_tape, undrawable
from ..parts.hooks import check_drawn
from ..tapes.scenarios import plain
from ..targets.base import Profile, Scope, TargetError
from ..targets.registry import prepare
from .messages import divergence_from_json, divergence_to_json
from .process import (
    WorkerDied,
    WorkerHung,
    WorkerProcess,
    WorkerSilent,
    kill_workers,
)  # fmt: skip

__all__ = ["CHUNK", "Budget", "Campaign", "Found", "Results"]


@dataclass(frozen=True)
class Budget:
    """When a campaign ends: after `tapes` tapes, `seconds` seconds with a loaded target, or at the first divergence.

    With `first`, tapes with smaller numbers than the diverging one are still played and later ones do not count, so
    that the results are the same on any number of workers.
    """

    tapes: int | None = None
    seconds: float | None = None
    first: bool = False


@dataclass(frozen=True)
class Found:
    """A tape that diverged.

    Attributes:
        tapes: how many tapes of the campaign diverged in this way; this one has the smallest number.
    """

    index: int
    divergence: Divergence
    tape: Tape
    tapes: int = 1


@dataclass
class Results:
    """The results of a campaign.

    Attributes:
        found: for each kind of divergence (class, check, pool, policy, event, and the event that made a loc stale) the
            tape with the smallest number (the first few with `examples`), in the order of numbers.
        skipped: events that did not apply.
        diverged: tapes that diverged.
        seen: situation -> how often it happened.
        reached: situation -> the first tape in which it happened, of those that do not diverge.
        interrupted: whether the campaign was ended before its budget was spent.
        notes: messages for the user, one line each.
    """

    profiles: list[Profile] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    tapes: int = 0
    events: int = 0
    skipped: int = 0
    diverged: int = 0
    seconds: float = 0.0
    seen: Counter[str] = field(default_factory=Counter)
    reached: dict[str, int] = field(default_factory=dict)
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)


CHUNK = 16
"""Tapes that a worker takes at a time."""

MAX_LOST = 5
"""Tapes that may crash or hang the target before the campaign ends. Each costs a new process."""


MAX_WORDINGS = 8
"""Wordings of one class and check at one place that are kept, at the engine level. Two bugs may differ in their words
only, and one bug may have several wordings."""


class _Doubts:
    """What happened once to workers, and is no result until it happens again in a fresh one."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, int]] = set()

    def first(self, kind: str, tape: int) -> bool:
        """Whether this has not happened on this tape before."""
        new = (kind, tape) not in self._seen
        self._seen.add((kind, tape))
        return new


class Campaign:
    """Plays tapes ``0, 1, 2, ...`` of a seed on `workers` processes.

    Args:
        target: the target's name.
        mutant: a mutant's name, or None.
        scope: the profiles from which tapes are drawn.
        progress: is called with the results so far from time to time, from a worker's thread.
        seen: is called with the first tape of each kind of divergence at once, from a worker's thread. An answer of a
            tape with a smaller number may come later, so some of these tapes are not among the results.
        worker: starts a worker with the target and the mutant; None for a plain one.
        start: number of the first tape.
        chunk: tapes that a worker takes at a time. With fewer, a time limit is kept more closely.
        examples: diverging tapes of one kind that are kept at most.
    """

    def __init__(
        self,
        target: str,
        seed: int,
        budget: Budget,
        workers: int,
        mutant: str | None = None,
        scope: Scope = Scope(),  # noqa: B008 - frozen
        progress: Callable[[Results], None] = lambda results: None,
        worker: Callable[[str, str | None], WorkerProcess] | None = None,
        start: int = 0,
        chunk: int = CHUNK,
        examples: int = 1,
        seen: Callable[[Found], None] = lambda found: None,
    ) -> None:
        self._target = target
        self._seed = seed
        self._budget = budget
        self._workers = workers
        self._mutant = mutant
        self._scope = scope
        self._progress = progress
        self._seen = seen
        self._start_worker = worker or WorkerProcess
        self._lock = threading.Lock()
        self._start = start
        self._examples = examples
        self._chunks = itertools.count(start, chunk)
        self._chunk = chunk
        self._answers: dict[int, dict[str, Any]] = {}
        self._next = start
        self._lost = 0
        self._over = False
        self._deadline: float | None = None
        self._cancelled = threading.Event()
        self._results = Results()
        self._kinds: dict[tuple[str, ...], list[Found]] = {}
        self._shown: dict[tuple[str, ...], Found] = {}
        self._wordings: Counter[tuple[str, ...]] = Counter()
        self._times: Counter[tuple[str, ...]] = Counter()
        self._passed_over = 0
        self._hangs: set[tuple[str, ...]] = set()

    def run(self) -> Results:
        """Play until the budget is spent. Ctrl-C ends the campaign early and returns the results so far.

        Raises:
            TargetError: the target cannot be loaded or driven, and there is no finding yet.
        """
        prepare(self._target)
        started = time.monotonic()
        pool = ThreadPoolExecutor(self._workers)
        played = False
        try:
            for job in as_completed([pool.submit(self._work) for _ in range(self._workers)]):
                job.result()
            played = True
        except KeyboardInterrupt:
            self._end_early("interrupted")
        except (TargetError, OSError) as error:  # such as no more files or processes
            if not self._kinds:
                raise
            self._end_early(str(error))
        finally:
            self._wind_up(pool, played)
        self._settle(sorted(self._answers))
        self._results.seconds = time.monotonic() - started
        found = [replace(it, tapes=self._times[words]) for words, kept in self._kinds.items() for it in kept]
        self._results.found = sorted(found, key=lambda it: it.index)
        if self._passed_over:
            self._results.notes.append(
                f"{self._passed_over} tapes were not examined: they diverge as others do, with further messages"
            )
        return self._results

    def _end_early(self, why: str) -> None:
        self._results.interrupted = True
        self._results.notes.append(f"{why}; these are the results so far")

    def _wind_up(self, pool: ThreadPoolExecutor, played: bool) -> None:
        """Wait for the threads. If not all is `played`, end them at once, however often Ctrl-C is pressed."""
        while True:
            try:
                if not played:
                    self._cancelled.set()
                    kill_workers()
                pool.shutdown()
                return
            except KeyboardInterrupt:
                continue

    def _work(self) -> None:
        worker = self._start_worker(self._target, self._mutant)
        try:
            self._results.profiles = self._scope.of(worker.profiles)
            if (lacking := self._scope.lacking(worker.profiles)) is not None:
                raise TargetError(
                    f"{self._target} cannot be driven at {lacking} (see: staleloc targets show {self._target})"
                )
            if (why := undrawable(self._target, self._scope, worker.profiles)) is not None:
                raise TargetError(why)
            self._start_clock()
            while (chunk := self._next_chunk()) is not None:
                worker = self._play(worker, chunk)
        finally:
            worker.close()

    def _start_clock(self) -> None:
        """Start the clock when the first target is loaded, so that loading time does not count."""
        with self._lock:
            if self._deadline is None and self._budget.seconds is not None:
                self._deadline = time.monotonic() + self._budget.seconds

    def _next_chunk(self) -> list[int] | None:
        with self._lock:
            if self._over or self._cancelled.is_set():
                return None
            if self._deadline is not None and time.monotonic() >= self._deadline:
                return None
            first = next(self._chunks)
            stop = first + self._chunk
            if self._budget.tapes is not None:
                stop = min(stop, self._start + self._budget.tapes)
            return list(range(first, stop)) or None

    def _play(self, worker: WorkerProcess, tapes: list[int]) -> WorkerProcess:
        """Play a chunk and return the worker, which is a new one if the old one was lost or in doubt."""
        doubts = _Doubts()
        while tapes and not self._over:
            done = 0
            try:
                for answer in worker.run(self._scope, self._seed, tapes):
                    if self._unsure(answer) and doubts.first("hang", tapes[done]):
                        break
                    self._note(answer)
                    done += 1
                else:
                    return worker
            except WorkerHung as error:
                done += self._missed(tapes[done], "hang", error, doubts)
            except WorkerSilent as error:
                if not doubts.first("silence", tapes[done]):
                    raise TargetError(
                        f"{error}, twice at tape {tapes[done]}: was it stopped, or does it wait?"
                    ) from None
                self._again(tapes[done], error)
            except WorkerDied as error:
                if self._cancelled.is_set():
                    return worker
                done += self._missed(tapes[done], "crash", error, doubts)
            worker.end()
            worker = self._start_worker(self._target, self._mutant)
            tapes = tapes[done:]
        return worker

    def _unsure(self, answer: dict[str, Any]) -> bool:
        """Whether an answer is a hang, and the first of its kind: a fresh process has to agree."""
        found = answer["divergence"]
        if found is None or found["kind"] != "hang":
            return False
        with self._lock:
            kind = tuple(answer["place"])
            known = kind in self._hangs
            self._hangs.add(kind)
        return not known

    def _missed(self, tape: int, kind: str, error: WorkerHung | WorkerDied, doubts: _Doubts) -> int:
        """How many tapes are done: 1 if a process was lost on this one in the same way before.

        A process that dies twice on one tape shows a bug of the target, unless it was killed from outside.
        """
        killed = isinstance(error, WorkerDied) and error.code == -9
        if doubts.first("kill" if killed else kind, tape):
            self._again(tape, error)
            return 0
        if killed:
            raise TargetError(f"{error} twice at tape {tape}: out of memory? Try fewer --workers")
        self._note(self._failed(tape, kind, str(error)))
        return 1

    def _again(self, tape: int, error: Exception) -> None:
        with self._lock:
            self._results.notes.append(f"{error} at tape {tape}; a new worker played it again")

    @staticmethod
    def _failed(tape: int, kind: str, what: str) -> dict[str, Any]:
        divergence = divergence_to_json(Divergence(kind, kind, -1, what))
        nothing: dict[str, Any] = {"place": [], "events": 0, "skipped": 0, "seen": {}}
        return {"tape": tape, "divergence": divergence, **nothing, "lost": True}

    def _note(self, answer: dict[str, Any]) -> None:
        with self._lock:
            self._answers[answer["tape"]] = answer
            if answer["divergence"] is not None and not self._over:
                self._see(answer)
            self._settle(itertools.takewhile(self._answers.__contains__, itertools.count(self._next)))

    def _settle(self, tapes: Iterable[int]) -> None:
        """Enter the answers of these tapes into the results, in this order, until the campaign is over."""
        results = self._results
        for tape in tapes:
            answer = self._answers.pop(tape)
            self._next = tape + 1
            if self._over:
                continue
            results.tapes += 1
            results.events += answer["events"]
            results.skipped += answer["skipped"]
            results.seen.update(answer["seen"])
            if answer["divergence"] is not None:
                self._keep(tape, divergence_from_json(answer["divergence"]), answer)
            else:
                for situation in answer["seen"]:
                    results.reached.setdefault(situation, tape)
            if "lost" in answer:
                self._lose()
            if results.tapes % CHUNK == 0:
                self._progress(results)

    def _see(self, answer: dict[str, Any]) -> None:
        """Show a tape that diverged, if it is the first of its kind so far."""
        divergence = divergence_from_json(answer["divergence"])
        kind, words = self._kind(divergence, answer), self._words(divergence, answer)
        first = self._shown.get(words)
        if first is None and sum(1 for it in self._shown if it[: len(kind)] == kind) >= MAX_WORDINGS:
            return
        if first is None or answer["tape"] < first.index:
            self._show(words, self._found(answer["tape"], divergence, answer))

    def _show(self, words: tuple[str, ...], found: Found) -> None:
        self._shown[words] = found
        self._seen(found)

    @staticmethod
    def _kind(divergence: Divergence, answer: dict[str, Any]) -> tuple[str, ...]:
        return (*divergence.key, *answer["place"])

    def _words(self, divergence: Divergence, answer: dict[str, Any]) -> tuple[str, ...]:
        """What tells kinds of divergences apart: of the allocator level less, as their minimal tapes do it later."""
        kind = self._kind(divergence, answer)
        return (*kind, plain(divergence.what)) if self._scope.level != LEVELS[0] else kind

    def _found(self, index: int, divergence: Divergence, answer: dict[str, Any]) -> Found:
        tape = generate_tape(seeded(self._seed, index), self._results.profiles, self._scope.checks)
        check_drawn(tape, answer.get("drawn"))
        return Found(index, divergence, tape)

    def _keep(self, index: int, divergence: Divergence, answer: dict[str, Any]) -> None:
        self._results.diverged += 1
        kind, words = self._kind(divergence, answer), self._words(divergence, answer)
        self._times[words] += 1
        if words not in self._kinds:
            self._wordings[kind] += 1
            if self._wordings[kind] > MAX_WORDINGS:
                self._passed_over += 1
            else:
                self._kinds[words] = []
        kept = self._kinds.get(words)
        if kept is not None and len(kept) < self._examples:
            found = self._found(index, divergence, answer)
            if not kept and (words not in self._shown or self._shown[words].index != index):
                self._show(words, found)
            kept.append(found)
        self._over = self._budget.first

    def _lose(self) -> None:
        self._lost += 1
        if self._lost == MAX_LOST and not self._over:
            self._over = True
            self._results.notes.append(
                f"the target crashed its process or hung on {MAX_LOST} tapes; the campaign ended there"
            )
