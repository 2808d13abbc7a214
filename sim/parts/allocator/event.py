"""An event of the allocator level: its contracts, its step, and what it does to books and world.

Each contract is a predicate with the reason in one line. An event that breaks one is never generated and is refused in
a tape, so a divergence is never just a misuse of the API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

from ....models.world import Grant, World
from ...core.divergence import MAX_ROWS, Divergence, LocRow
from ...core.event import Event
from ...targets.base import FreeSlots, Rows, Target
from .draws import Draws
from .ledger import Ledger

__all__ = [
    "APPENDABLE", "FROZEN", "OUTSIDE_DRAFT", "OUTSIDE_GROUP", "SPAN", "WHOLE_PAGES", "AllocatorEvent", "Rule", "Step",
    "all_mapped", "clipped_pages", "clipped_span", "span_exists", "span_words", "swa_pages_free", "tokens",
]  # fmt: skip


class Rule(NamedTuple):
    """`holds(ledger, event)` is true of every legal event; `reason` says why."""

    reason: str
    holds: Callable[[Ledger, Any], bool]


def first_broken(rules: Iterable[Rule], ledger: Ledger, event: Any) -> str | None:
    """The reason of the first rule that the event breaks, or None."""
    return next((rule.reason for rule in rules if not rule.holds(ledger, event)), None)


def span_exists(ledger: Ledger, event: Any) -> bool:
    """Whether the event's span lies inside the request's tokens."""
    start, stop = event.start, event.stop
    return bool(0 <= start < stop <= ledger.length(event.request))


def all_mapped(ledger: Ledger, event: Any) -> bool:
    """Whether every page that the event's span touches has SWA slots."""
    return all(ledger.mapped(event.request, event.start, event.stop))


def swa_pages_free(ledger: Ledger, event: Any) -> bool:
    """Whether as many SWA pages are free as the event's span touches."""
    return len(ledger.page_range(event.start, event.stop)) <= ledger.free_swa


def _aligned(ledger: Ledger, event: Any) -> bool:
    size = ledger.config.page_size
    return bool(event.start % size == event.stop % size == 0)


def _not_frozen(ledger: Ledger, event: Any) -> bool:
    forward = ledger.forward
    if forward is None or not forward.frozen:
        return True
    stop = getattr(event, "stop", ledger.length(event.request))
    pages = ledger.page_range(event.start, stop)
    size = ledger.config.page_size
    return not forward.touches(event.request, pages.start * size, pages.stop * size)


OUTSIDE_GROUP = Rule(
    "slots freed in an open free group are neither free nor owned; a scheduler does this before or after the group",
    lambda ledger, event: not ledger.group_open,
)
OUTSIDE_DRAFT = Rule(
    "between backup and restore a draft only allocates and runs (SGLang EAGLE v1, DFLASH workers)",
    lambda ledger, event: ledger.saved is None,
)
SPAN = Rule("the span must lie inside the request's tokens", span_exists)
WHOLE_PAGES = Rule("host and tree nodes hold whole pages, so mappings change by whole pages", _aligned)
FROZEN = Rule(
    "the batch was translated once when its forward began; its mapping may not change before it ends "
    "(SGLang PRs 24138, 27091, 27617)",
    _not_frozen,
)
APPENDABLE = "a partly filled last page must have SWA slots: the next SWA slot is derived from the last one"


@dataclass(slots=True)
class Step:
    """One event after the target has executed it.

    Attributes:
        index: the event's place in the tape.
        grants: slots the event handed out, not yet taken over by the world.
        miscount: what is wrong with the number of slots handed out, or an empty string.
        refused: the target refused an allocation; None if the event allocates nothing.
        room: the world says the allocation fits; meaningful with `refused`.
        asked: full locs that were translated, and
        answers: what the target answered for each.
        read_layer: layer that was read; `read_locs` its full locs and `rows` the answer.
        written: layer and tags of a write.
        touched: layers whose contents the event may have changed.
        moved: the SWA slot that each of `grants` had before and that its row comes from; None if rows stay.
        ledger: the scheduler's books before the event, if an event of the tape asks for them; else None.
        mapping: the target's raw table after the event.
        free: the target's raw free lists after the event; None if the event leaves them alone.
    """

    index: int
    event: Any
    world: World
    target: Target
    mapping: list[int] = field(default_factory=list)
    free: FreeSlots | None = None
    grants: list[Grant] = field(default_factory=list)
    miscount: str = ""
    refused: bool | None = None
    room: bool = True
    asked: list[int] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    read_layer: int = -1
    read_locs: list[int] = field(default_factory=list)
    rows: Rows | None = None
    written: tuple[int, list[int]] | None = None
    touched: Iterable[int] = ()
    moved: list[int] | None = None
    ledger: Ledger | None = None
    _contents: dict[int, Rows] = field(default_factory=dict)

    def slot(self, loc: int) -> int:
        """The SWA slot that the raw table has for a full loc after the event."""
        return self.mapping[loc] if loc < len(self.mapping) else 0

    def contents(self, layer: int) -> Rows:
        """Raw contents of a layer after the event, read once."""
        if layer not in self._contents:
            self._contents[layer] = self.target.raw_contents(layer)
        return self._contents[layer]

    def diverges(self, kind: str, what: str, sentence: str = "", rows: Sequence[LocRow] = ()) -> Divergence:
        """A divergence at this event."""
        return Divergence(kind, "", self.index, what, sentence, tuple(rows[:MAX_ROWS]), self.world.decisive)


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
