"""Jobs of the audit: each is done by a worker process of its own, which answers once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from ...parts.events_file import handed_on, read
from ...parts.hooks import DeclaredError, loaded
from ...run.process import Channel, ChildProcess, WorkerDied, WorkerSilent
from ...targets.base import TargetError

__all__ = ["GRACE_SECONDS", "run_jobs", "serve_job"]

GRACE_SECONDS = 60.0
"""Time that a job may take beyond its budget and the loading of its target: its last tape may be a long one."""


def run_jobs(module: str, jobs: Sequence[dict[str, Any]], limit: float) -> list[Any]:
    """Run a worker for each job and return their answers.

    Args:
        module: the worker's module; see `serve_job`.
        limit: seconds that a job may take.

    Raises:
        TargetError: a worker answered with an error, or gave no answer.
    """
    with ExitStack() as stack:
        workers = []
        for job in jobs:
            workers.append(stack.enter_context(ChildProcess(module, {**job, "events": handed_on()})))
        return [_answer(worker, limit) for worker in workers]


def _answer(worker: ChildProcess, limit: float) -> Any:
    try:
        return worker.receive(limit)["done"]
    except WorkerSilent:
        raise TargetError(f"the instrumented target gave no result within {limit:.0f} s") from None
    except WorkerDied as error:
        if error.code:
            log = " ".join(error.log.split())[:300] or "no message"
            raise TargetError(f"the instrumented target could not be played (exit code {error.code}): {log}") from None
    events = loaded()
    what = "the target" if events is None else f"{events.path} or the target"
    raise TargetError(f"a process ended during its job with exit code 0, as {what} does")


def serve_job(work: Callable[[dict[str, Any]], Any]) -> None:
    """Do the job that standard input has, with the declared events that belong to it, and write the answer.

    The arguments of this process are those of a `Channel`.
    """
    channel = Channel(sys.argv[1:])
    job = next(channel.requests())
    try:
        read(job["events"], job["mark"])
        answer = {"done": work(job)}
    except DeclaredError as error:
        answer = {"error": str(error)}
    except SyntaxError as error:
        answer = {"error": f"{error.filename}, line {error.lineno or 1}: {error.msg}; the target cannot be loaded"}
    channel.answer(answer)
