"""Make any list of events legal: clip spans to what is there, drop what still breaks a contract.

A shrinker may then delete or change events freely; what depended on them follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from ...models.config import Config
from ..parts.allocator import events as ev
from ..parts.allocator.contracts import violation
from ..parts.allocator.ledger import Ledger
from ..parts.declared import Declared
from ..parts.legality import incapable
from ..targets.base import Profile

__all__ = ["repair"]


def repair(config: Config, events: Iterable[ev.Event], profile: Profile) -> tuple[ev.Event, ...]:
    """The events that remain legal on this cache, each as close to the given one as possible."""
    if config.level == "engine":
        return tuple(event for event in events if event.kind in profile.events)
    ledger = Ledger(config, profile.per_forward)
    kept: list[ev.Event] = []
    for event in events:
        clip = _of_file if isinstance(event, Declared) else _CLIP.get(type(event))
        clipped = clip(ledger, event) if clip else event
        if clipped is None or incapable(clipped, profile) or violation(ledger, clipped):
            continue
        ledger.apply(clipped)
        kept.append(clipped)
    return tuple(kept)


def _span(ledger: Ledger, event: Any) -> ev.Event | None:
    length = ledger.length(event.request)
    stop = min(event.stop, length)
    clipped: ev.Event = replace(event, start=min(event.start, stop), stop=stop)
    return clipped


def _of_file(ledger: Ledger, event: Any) -> ev.Event | None:
    spans = all(type(getattr(event, name, None)) is int for name in ("request", "start", "stop"))
    return _span(ledger, event) if spans else event


def _page_span(ledger: Ledger, event: Any) -> ev.Event | None:
    size = ledger.config.page_size
    stop = min(event.stop, ledger.length(event.request)) // size * size
    clipped: ev.Event = replace(event, start=min(event.start // size * size, stop), stop=stop)
    return clipped


def _register(ledger: Ledger, event: ev.RegisterMapping) -> ev.Event | None:
    clipped = _page_span(ledger, event)
    assert isinstance(clipped, ev.RegisterMapping)
    return ev.RegisterMapping(0, 0, 0) if clipped.start == clipped.stop else clipped


def _tail(ledger: Ledger, event: ev.AllocExtendSwaTail) -> ev.Event | None:
    size = ledger.config.page_size
    return replace(event, tail=max(0, event.count - (event.count - event.tail) // size * size))


def _free(ledger: Ledger, event: ev.Free) -> ev.Event | None:
    size = ledger.config.page_size
    last_page = max(0, ledger.length(event.request) - 1) // size * size
    return replace(event, start=min(event.start // size * size, last_page))


def _batch(ledger: Ledger, event: ev.BeginForward) -> ev.Event | None:
    spans = []
    for request, start, stop in event.spans:
        stop = min(stop, ledger.length(request))
        if stop:
            spans.append((request, min(start, stop - 1), stop))
    return replace(event, spans=tuple(spans)) if spans else None


def _write(ledger: Ledger, event: ev.WriteKv) -> ev.Event | None:
    return None if ledger.forward is None else ev.WriteKv(ledger.forward.next_layer)


def _translate(ledger: Ledger, event: ev.Translate) -> ev.Event | None:
    if event.source != "batch":
        return _span(ledger, event)
    if ledger.forward is None:
        return None
    stop = min(event.stop, ledger.forward.tokens)
    return replace(event, start=min(event.start, stop - 1), stop=stop)


def _load(ledger: Ledger, event: ev.LoadCpuCopy) -> ev.Event | None:
    room = ledger.length(event.request) - ledger.copies.get(event.copy, 0)
    return replace(event, start=max(0, min(event.start, room)))


_CLIP: dict[type[ev.Event], Callable[[Ledger, Any], ev.Event | None]] = {
    ev.AllocExtendSwaTail: _tail,
    ev.Free: _free,
    ev.FreeSwa: _span,
    ev.SetMapping: _page_span,
    ev.RegisterMapping: _register,
    ev.BeginForward: _batch,
    ev.WriteKv: _write,
    ev.Translate: _translate,
    ev.CpuCopy: _span,
    ev.LoadCpuCopy: _load,
}
