"""The requests of a decode node, from the queue to their end, and where each stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from .cpu_copy import CpuCopy

__all__ = ["DecodeJobs", "Job"]


@dataclass(eq=False)
class Job:
    """One request.

    Attributes:
        number: its name.
        tokens: the prompt, then the output so far; the last output token has no KV yet.
        prompt: tokens of the prompt.
        most: output tokens at most.
        swa_from: the first token whose SWA row was written, by the sender or from a copy.
        copy: its KV while it is retracted.
    """

    number: int
    tokens: list[int]
    prompt: int
    most: int
    swa_from: int = 0
    copy: CpuCopy | None = None

    @property
    def outputs(self) -> int:
        """Output tokens so far."""
        return len(self.tokens) - self.prompt

    @property
    def committed(self) -> int:
        """Tokens with KV, or that will have it when the sender is done."""
        return self.prompt + max(self.outputs - 1, 0)


@dataclass
class DecodeJobs:
    """The queues, each in the order in which requests came to it. Every live request is in one of them."""

    queued: list[Job] = field(default_factory=list)
    transferring: list[Job] = field(default_factory=list)
    waiting: list[Job] = field(default_factory=list)
    prebuilt: list[Job] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)
    retracted: list[Job] = field(default_factory=list)

    def take(self, number: int) -> Job | None:
        """Take a request out of its queue; None if it is not a decode node's."""
        for queue in self.all():
            for job in queue:
                if job.number == number:
                    queue.remove(job)
                    return job
        return None

    def find(self, number: int) -> Job:
        """A live request."""
        return next(job for queue in self.all() for job in queue if job.number == number)

    def all(self) -> Iterator[list[Job]]:
        """The queues."""
        return (getattr(self, queue.name) for queue in fields(self))
