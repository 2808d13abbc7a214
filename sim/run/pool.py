"""Workers that serve one campaign or player after the other, because loading a target takes seconds."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Self

from ..targets.base import Scope
from .process import ANSWER_SECONDS, WorkerProcess

__all__ = ["PooledWorker", "WorkerPool"]


class PooledWorker(WorkerProcess):
    """A worker that returns to its pool when it is closed."""

    def __init__(self, pool: WorkerPool, target: str, mutant: str | None, answer_seconds: float) -> None:
        self._pool = pool
        self._busy = True
        self.serves = target, mutant, answer_seconds
        super().__init__(target, mutant, answer_seconds)
        self._busy = False

    def run(self, scope: Scope, seed: int, tapes: list[int]) -> Iterator[dict[str, Any]]:
        self._busy = True
        yield from super().run(scope, seed, tapes)
        self._busy = False

    def play(self, tape_text: str, rows: int = 0) -> dict[str, Any]:
        self._busy = True
        answer = super().play(tape_text, rows)
        self._busy = False
        return answer

    def close(self) -> None:
        """Return to the pool; end only if there was no answer to the last request."""
        if self._busy:
            super().close()
        else:
            self._pool.put_back(self)

    def end(self) -> None:
        super().close()


class WorkerPool:
    """Any thread may use it. Use as a context manager, which ends all workers that are not in use.

    Args:
        start: starts a worker of this pool.
    """

    def __init__(self, start: Callable[[WorkerPool, str, str | None, float], PooledWorker] = PooledWorker) -> None:
        self._start = start
        self._idle: dict[tuple[str, str | None, float], list[PooledWorker]] = defaultdict(list)
        self._lock = threading.Lock()

    def worker(self, target: str, mutant: str | None, answer_seconds: float = ANSWER_SECONDS) -> WorkerProcess:
        """Return an idle worker, or start one."""
        with self._lock:
            idle = self._idle[target, mutant, answer_seconds]
            if idle:
                return idle.pop()
        return self._start(self, target, mutant, answer_seconds)

    def put_back(self, worker: PooledWorker) -> None:
        """Keep a worker for the next one who needs it."""
        with self._lock:
            self._idle[worker.serves].append(worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for workers in self._idle.values():
            for worker in workers:
                worker.end()
