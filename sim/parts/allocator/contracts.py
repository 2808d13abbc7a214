"""What a scheduler never does: the contracts of the allocator's and the pool's API, in one place.

Each rule is a predicate with the reason in one line. An event that breaks a rule is never generated
and is refused in a tape, so a divergence is never just a misuse of the API. Rules that every engine
shares come first; a few hold only for a target that says so in its profile.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

from ..declared import Declared, Repack
from ..hooks import meaning, refusal
from . import events as ev
from .ledger import Ledger

__all__ = ["MAX_BATCH_OFFSET", "RULES", "Rule", "violation"]

MAX_BATCH_OFFSET = 1024
"""Largest offset of a batch's view, in elements."""

_GROUP = "slots freed in an open free group are in between; a scheduler does this before or after it"
_DRAFT = "between backup and restore a draft only allocates and runs (SGLang EAGLE v1, DFLASH workers)"


class Rule(NamedTuple):
    """`holds(ledger, event)` is true of every legal event; `reason` says why."""

    reason: str
    holds: Callable[[Ledger, Any], bool]


def _positive(counts: list[int]) -> bool:
    return bool(counts) and all(count > 0 for count in counts)


def _span_exists(ledger: Ledger, event: Any) -> bool:
    start, stop = event.start, event.stop
    return bool(0 <= start < stop <= ledger.length(event.request))


def _aligned(ledger: Ledger, event: Any) -> bool:
    size = ledger.config.page_size
    return bool(event.start % size == event.stop % size == 0)


def _all_mapped(ledger: Ledger, event: Any) -> bool:
    return all(ledger.mapped(event.request, event.start, event.stop))


def _none_mapped(ledger: Ledger, event: Any) -> bool:
    return not any(ledger.mapped(event.request, event.start, event.stop))


def _not_frozen(ledger: Ledger, event: Any) -> bool:
    forward = ledger.forward
    if forward is None or not forward.frozen:
        return True
    stop = getattr(event, "stop", ledger.length(event.request))
    pages = ledger.page_range(event.start, stop)
    size = ledger.config.page_size
    return not forward.touches(event.request, pages.start * size, pages.stop * size)


def _open_intact(ledger: Ledger, event: Any) -> bool:
    return ledger.forward is not None and not ledger.forward.broken


def _next_layer(ledger: Ledger) -> int:
    """The layer that the running forward writes next, 0 if none is running."""
    return 0 if ledger.forward is None else ledger.forward.next_layer


def _room_to_decode(ledger: Ledger, event: ev.AllocDecode) -> bool:
    need = sum(ledger.new_pages(request, 1) for request in event.requests)
    return need <= ledger.free_full and need <= ledger.free_swa


def _translate_source(ledger: Ledger, event: ev.Translate) -> bool:
    if event.source == "batch":
        forward = ledger.forward
        return forward is not None and event.request == 0 and 0 <= event.start < event.stop <= forward.tokens
    return _span_exists(ledger, event)


def _move_spans(ledger: Ledger, event: ev.Move) -> bool:
    ends = (event.source + event.count, event.target + event.count)
    if event.count < 1 or min(event.source, event.target) < 0 or max(ends) > ledger.length(event.request):
        return False
    spans = ((event.source, ends[0]), (event.target, ends[1]))
    return all(all(ledger.mapped(event.request, start, stop)) for start, stop in spans)


_OUTSIDE_GROUP = Rule(_GROUP, lambda ledger, event: not ledger.group_open)
_OUTSIDE_DRAFT = Rule(_DRAFT, lambda ledger, event: ledger.saved is None)
_SPAN = Rule("the span must lie inside the request's tokens", _span_exists)
_WHOLE_PAGES = Rule("host and tree nodes hold whole pages, so mappings change by whole pages", _aligned)
_FROZEN = Rule(
    "the batch was translated once when its forward began; its mapping may not change before it ends "
    "(SGLang PRs 24138, 27091, 27617)",
    _not_frozen,
)
_FORWARD = Rule("no forward is running, or a request of its batch has lost tokens", _open_intact)
_APPENDABLE = "a partly filled last page must have SWA slots: the next SWA slot is derived from the last one"

RULES: dict[type[ev.Event], tuple[Rule, ...]] = {
    ev.Alloc: (
        _OUTSIDE_GROUP,
        Rule("alloc hands out single slots: page size 1 only", lambda le, e: le.config.page_size == 1),
        Rule("an allocation is of at least one token", lambda le, e: e.count > 0),
    ),
    ev.AllocExtend: (
        _OUTSIDE_GROUP,
        Rule("alloc_extend is the paged allocator's: page size above 1", lambda le, e: le.config.page_size > 1),
        Rule("each request gets at least one token", lambda le, e: _positive([count for _, count in e.items])),
        Rule("a request is in a batch once", lambda le, e: len(dict(e.items)) == len(e.items)),
        Rule(_APPENDABLE, lambda le, e: all(le.appendable(request) for request, _ in e.items)),
    ),
    ev.AllocDecode: (
        _OUTSIDE_GROUP,
        Rule("alloc_decode is the paged allocator's: page size above 1", lambda le, e: le.config.page_size > 1),
        Rule("a request is in a batch once", lambda le, e: 0 < len(e.requests) == len(set(e.requests))),
        Rule("only a request with a prefix decodes", lambda le, e: all(le.length(r) > 0 for r in e.requests)),
        Rule(_APPENDABLE, lambda le, e: all(le.appendable(request) for request in e.requests)),
        Rule("the scheduler evicts or retracts until a decode step fits, then allocates", _room_to_decode),
    ),
    ev.AllocExtendSwaTail: (
        _OUTSIDE_GROUP,
        Rule("the tail allocation is the paged allocator's: page size above 1", lambda le, e: le.config.page_size > 1),
        Rule("the tail is a part of the extension", lambda le, e: 0 <= e.tail <= e.count and e.count > 0),
        Rule(
            "the decode queue aligns the prefix and the start of the tail to pages",
            lambda le, e: (
                le.length(e.request) % le.config.page_size == 0 and (e.count - e.tail) % le.config.page_size == 0
            ),
        ),
    ),
    ev.Free: (
        _OUTSIDE_DRAFT,
        Rule(
            "no live loc is freed twice: the request must have tokens there",
            lambda le, e: 0 <= e.start < le.length(e.request),
        ),
        Rule(
            "a page has one owner, so a free starts on a page boundary",
            lambda le, e: e.start % le.config.page_size == 0,
        ),
        _FROZEN,
    ),
    ev.FreeSwa: (
        _OUTSIDE_DRAFT,
        _SPAN,
        Rule(
            "the evicted length only grows: no page is evicted twice",
            _all_mapped,
        ),
        _FROZEN,
    ),
    ev.FreeGroupBegin: (
        _OUTSIDE_DRAFT,
        Rule("free groups do not nest (asserted by SGLang since PR 36739)", lambda le, e: not le.group_open),
    ),
    ev.FreeGroupEnd: (_OUTSIDE_DRAFT,),
    ev.SetMapping: (
        _OUTSIDE_DRAFT,
        _SPAN,
        _WHOLE_PAGES,
        Rule(
            "load-back and recovery map tokens that have no SWA slot",
            _none_mapped,
        ),
        Rule("the SWA pool must have the pages", lambda le, e: len(le.page_range(e.start, e.stop)) <= le.free_swa),
        _FROZEN,
    ),
    ev.RegisterMapping: (
        _OUTSIDE_GROUP,
        _OUTSIDE_DRAFT,
        Rule(
            "the re-packed span must lie inside the request's tokens",
            lambda le, e: e.start == e.stop == 0 or _span_exists(le, e),
        ),
        _WHOLE_PAGES,
        Rule(
            "only mapped pages are re-packed",
            lambda le, e: e.start == e.stop or _all_mapped(le, e),
        ),
        Rule("the SWA pool must have the pages", lambda le, e: len(le.page_range(e.start, e.stop)) <= le.free_swa),
        _FROZEN,
    ),
    ev.Backup: (
        _OUTSIDE_GROUP,
        _OUTSIDE_DRAFT,
        Rule("the draft starts between forwards", lambda le, e: le.forward is None),
    ),
    ev.Restore: (
        Rule("there must be a backup to go back to", lambda le, e: le.saved is not None),
        Rule("the draft ends between forwards", lambda le, e: le.forward is None),
    ),
    ev.Clear: (
        _OUTSIDE_GROUP,
        _OUTSIDE_DRAFT,
        Rule(
            "a batch translated once is not flushed under its forward (SGLang PRs 24138, 27091, 27617)",
            lambda le, e: le.forward is None or not le.forward.frozen,
        ),
    ),
    ev.BeginForward: (
        _OUTSIDE_GROUP,
        Rule("one forward at a time", lambda le, e: le.forward is None),
        Rule("a batch has tokens", lambda le, e: bool(e.spans)),
        Rule("a request is in a batch once", lambda le, e: len({r for r, _, _ in e.spans}) == len(e.spans)),
        Rule("a batch's tokens are allocated", lambda le, e: all(0 <= s < t <= le.length(r) for r, s, t in e.spans)),
        Rule("storage is fresh, reused or view", lambda le, e: e.storage in ("fresh", "reused", "view")),
        Rule(
            "only a view has an offset, and it fits the buffer",
            lambda le, e: 0 < e.offset <= MAX_BATCH_OFFSET if e.storage == "view" else e.offset == 0,
        ),
    ),
    ev.WriteKv: (
        _OUTSIDE_GROUP,
        _FORWARD,
        Rule("a forward runs all layers in order from the first", lambda le, e: e.layer == _next_layer(le)),
        Rule("the model has no such layer", lambda le, e: e.layer < len(le.config.layers)),
    ),
    ev.ReadKv: (
        _OUTSIDE_GROUP,
        _FORWARD,
        Rule("a layer is read after it was written", lambda le, e: 0 <= e.layer < _next_layer(le)),
    ),
    ev.Translate: (
        _OUTSIDE_GROUP,
        Rule(f"source is one of {', '.join(ev.SOURCES)}", lambda le, e: e.source in ev.SOURCES),
        Rule("what is translated must exist", _translate_source),
    ),
    ev.EndForward: (Rule("no forward is running", lambda le, e: le.forward is not None),),
    ev.CpuCopy: (_OUTSIDE_GROUP, _SPAN, Rule("a copy has a number", lambda le, e: e.copy >= 0)),
    ev.LoadCpuCopy: (
        _OUTSIDE_GROUP,
        Rule("the copy must exist", lambda le, e: e.copy in le.copies),
        Rule(
            "a copy is loaded into as many allocated tokens as it has",
            lambda le, e: e.start >= 0 and e.start + le.copies[e.copy] <= le.length(e.request),
        ),
    ),
    ev.Move: (
        _OUTSIDE_GROUP,
        Rule("accepted tokens move between allocated tokens that have SWA slots", _move_spans),
        Rule("source and target do not overlap", lambda le, e: abs(e.source - e.target) >= e.count),
    ),
}
"""Event type -> the rules it must keep, checked in order."""

_REPACK = (
    Rule(
        "the batch was translated once when its forward began; no mapping may change before it ends "
        "(SGLang PRs 24138, 27091, 27617)",
        lambda ledger, event: ledger.forward is None or not ledger.forward.frozen,
    ),
)


def violation(ledger: Ledger, event: ev.Event) -> str | None:
    """The reason why a scheduler would not do this now, or None."""
    if isinstance(event, Declared):
        return _violation_of_declared(ledger, event)
    return _broken(_REPACK if isinstance(event, Repack) else RULES[type(event)], ledger, event)


def _broken(rules: tuple[Rule, ...], ledger: Ledger, event: ev.Event) -> str | None:
    return next((rule.reason for rule in rules if not rule.holds(ledger, event)), None)


def _violation_of_declared(ledger: Ledger, event: Declared) -> str | None:
    """The same for an event of somebody's file: its own rule, and those of what it means, one part after the other."""
    reason = _broken((_OUTSIDE_GROUP, _OUTSIDE_DRAFT), ledger, event) or refusal(event, ledger)
    if reason is not None:
        return reason
    parts = meaning(event, ledger)
    after = copy.deepcopy(ledger) if len(parts) > 1 else ledger
    for part in parts:
        reason = violation(after, part)
        if reason is not None:
            return reason
        if len(parts) > 1:
            after.apply(part)
    return None
