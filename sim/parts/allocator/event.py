"""An event of the allocator level: when it is legal, the target's call, what the books and the world take over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from ...core.event import Event
from .contracts import Rule, first_broken
from .draws import Draws
from .ledger import Ledger
from .step import Step

__all__ = ["AllocatorEvent", "clipped_pages", "clipped_span", "span_words", "tokens"]


@dataclass(frozen=True)
class AllocatorEvent(Event):
    """One step of a tape of single calls.

    Attributes:
        weight: how often it is tried in a tape that has it.
        rules: what holds whenever a scheduler does it, in the order in which it is asked.
        always: whether every tape may have it.
        follows: the event without which it is not possible, if there is one.
        allocates: it hands out slots for more tokens.
        remaps: it changes the SWA slots of tokens that stay.
        keeps_free_lists: it leaves the free lists alone.
        reads_books: its `perform` looks at the scheduler's books.
    """

    weight: ClassVar[int]
    rules: ClassVar[tuple[Rule, ...]]
    always: ClassVar[bool] = False
    follows: ClassVar[type[AllocatorEvent] | None] = None
    allocates: ClassVar[bool] = False
    remaps: ClassVar[bool] = False
    keeps_free_lists: ClassVar[bool] = False
    reads_books: ClassVar[bool] = False

    @classmethod
    def fits_pages(cls, size: int) -> bool:
        """Whether an allocator with pages of this many tokens has it."""
        return True

    @classmethod
    def propose(cls, draws: Draws) -> Self | None:
        """An event that suits the books, whether or not it is legal; None if none comes to mind."""
        return cls()

    def violation(self, ledger: Ledger) -> str | None:
        """The reason why a scheduler would not do this now, or None."""
        return first_broken(self.rules, ledger, self)

    def enter(self, ledger: Ledger) -> None:
        """Enter it in the scheduler's books."""

    def clip(self, ledger: Ledger) -> Self | None:
        """The event as close to this one as the books allow, None if there is none; it need not be legal."""
        return self

    def perform(self, step: Step) -> None:
        """Run it on the target, and note in `step` what the target answered."""
        raise NotImplementedError

    def adopt(self, step: Step) -> None:
        """Enter it in the world. Between this and `perform`, early checks look at slots that were handed out."""

    def follow(self, step: Step) -> None:
        """A declared event did it: enter what it gave up in the world, and note what it handed out."""
        self.adopt(step)


def clipped_span(event: Any, ledger: Ledger) -> Any:
    """The event with its span inside the request's tokens."""
    stop = min(event.stop, ledger.length(event.request))
    return event.changed(start=min(event.start, stop), stop=stop)


def clipped_pages(event: Any, ledger: Ledger) -> Any:
    """The event with its span inside the request's tokens, and of whole pages."""
    size = ledger.config.page_size
    stop = min(event.stop, ledger.length(event.request)) // size * size
    return event.changed(start=min(event.start // size * size, stop), stop=stop)


def tokens(start: int, stop: int) -> str:
    """Positions ``[start, stop)`` for people: ``token 3``, ``tokens 0–3``."""  # noqa: RUF002
    if stop - start == 1:
        return f"token {start}"
    return f"tokens {start}–{stop - 1}" if stop > start else "no tokens"  # noqa: RUF001 - a range is written so


def span_words(request: int, start: int, stop: int) -> str:
    """Tokens of a request for people."""
    return f"request {request} {tokens(start, stop)}"
