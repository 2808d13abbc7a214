"""What a scheduler never does: the contracts of the allocator's and the pool's API that several events share.

Each rule is a predicate with the reason in one line. An event that breaks a rule is never generated
and is refused in a tape, so a divergence is never just a misuse of the API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .ledger import Ledger

__all__ = [
    "APPENDABLE", "FROZEN", "OUTSIDE_DRAFT", "OUTSIDE_GROUP", "SPAN", "WHOLE_PAGES",
    "Rule", "all_mapped", "first_broken", "span_exists", "swa_pages_free",
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
    "slots freed in an open free group are in between; a scheduler does this before or after it",
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
