"""What is simpler: smaller candidates for a cache and for a single event.

A candidate need not be legal; it is repaired before it is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ...models.config import FULL, SWA, Config
from ..parts import registry
from ..parts.allocator import events as ev
from ..parts.declared import Declared
from ..parts.engine.event import EngineEvent

__all__ = ["cost", "simpler_configs", "simpler_events"]

_STORAGES = ("fresh", "reused", "view")


def cost(config: Config, events: tuple[ev.Event, ...]) -> tuple[int, ...]:
    """What a shrink makes smaller: events first, then the cache, then what the events ask for."""
    cache = config.page_size + len(config.layers) * 4 + config.full_size + config.swa_size + config.need_sort
    cache += config.host_full_size + config.host_swa_size
    cache += config.spec_steps + config.spec_topk + config.spec_draft_tokens + config.bigram
    return len(events), cache, sum(map(_weight, events))


def _weight(event: ev.Event) -> int:
    return sum(map(_size, event.arguments().values()))


def _size(value: object) -> int:
    if isinstance(value, tuple):
        return 2 + sum(map(_size, value))
    if isinstance(value, str):
        return _STORAGES.index(value) if value in _STORAGES else 0
    assert isinstance(value, int)
    return value


def simpler_configs(config: Config) -> Iterator[Config]:
    """Smaller caches: fewer pages, layers, tokens a page."""
    size = config.page_size
    for pages in (1, 2, 3, 4, 6):
        if pages < config.full_pages:
            yield replace(config, full_size=pages * size, swa_size=min(config.swa_size, pages * size))
        if pages < config.swa_pages:
            yield replace(config, swa_size=pages * size)
    for layers in ((SWA,), (FULL, SWA), (SWA, SWA)):
        if len(layers) < len(config.layers):
            yield replace(config, layers=layers)
    for smaller in (2, 4, 16):
        if 1 < smaller < size:
            full, swa = config.full_pages * smaller, config.swa_pages * smaller
            yield replace(config, page_size=smaller, full_size=full, swa_size=swa)
    if config.need_sort:
        yield replace(config, need_sort=False)
    yield from registry.simpler_configs(config)
    if config.host_full_size:
        yield replace(config, host_full_size=0, host_swa_size=0, write_policy="write_through")
        for slots in (size, 2 * size, 4 * size):
            if slots < config.host_full_size:
                yield replace(config, host_full_size=slots)
            if slots < config.host_swa_size:
                yield replace(config, host_swa_size=slots)


def simpler_events(event: ev.Event) -> Iterator[ev.Event]:
    """Smaller versions of one event, the boldest first."""
    if isinstance(event, Declared):
        yield from _of_file(event)
    elif isinstance(event, EngineEvent):
        yield from event.simpler()
    else:
        yield from _SIMPLER.get(type(event), _none)(event)


def _none(event: ev.Event) -> Iterator[ev.Event]:
    return iter(())


def _smaller(value: int, least: int) -> Iterator[int]:
    """Values below `value`, boldest first: the least, half, one less."""
    last = None
    for candidate in (least, (value + least) // 2, value - 1):
        if least <= candidate < value and candidate != last:
            last = candidate
            yield candidate


def _fields(event: Any, **least: int) -> Iterator[ev.Event]:
    for name, bound in least.items():
        for value in _smaller(getattr(event, name), bound):
            yield replace(event, **{name: value})


def _without_one(items: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if len(items) > 1:
        for i in range(len(items)):
            yield items[:i] + items[i + 1 :]


def _span(event: Any) -> Iterator[ev.Event]:
    """A span moves to the front, loses its head, loses its tail."""
    if event.start:
        yield replace(event, start=0, stop=event.stop - event.start)
    for value in _smaller(event.stop, event.start + 1):
        yield replace(event, stop=value)
    yield from _fields(event, request=0)


def _of_file(event: Declared) -> Iterator[ev.Event]:
    """Whatever is a number or a list becomes less; what is too little for its file is dropped when it is repaired."""
    values = event.arguments()
    if all(type(values.get(name)) is int for name in ("request", "start", "stop")):
        yield from _span(event)
    for name, value in values.items():
        if type(value) is int:
            yield from _fields(event, **{name: 0})
        elif value is True:
            yield event.changed(**{name: False})
        elif isinstance(value, tuple):
            yield from (event.changed(**{name: items}) for items in _without_one(value))


def _extend(event: ev.AllocExtend) -> Iterator[ev.Event]:
    for items in _without_one(event.items):
        yield replace(event, items=items)
    for i, (request, count) in enumerate(event.items):
        for value in _smaller(count, 1):
            yield replace(event, items=(*event.items[:i], (request, value), *event.items[i + 1 :]))


def _tail(event: ev.AllocExtendSwaTail) -> Iterator[ev.Event]:
    for value in _smaller(event.count, 1):
        yield replace(event, count=value, tail=min(event.tail, value))
    yield from _fields(event, tail=0)


def _decode(event: ev.AllocDecode) -> Iterator[ev.Event]:
    for requests in _without_one(event.requests):
        yield replace(event, requests=requests)


def _batch(event: ev.BeginForward) -> Iterator[ev.Event]:
    for spans in _without_one(event.spans):
        yield replace(event, spans=spans)
    if event.precomputed:
        yield replace(event, precomputed=False)
    for storage in _STORAGES[: _STORAGES.index(event.storage)]:
        yield replace(event, storage=storage, offset=0)
    for i, (request, start, stop) in enumerate(event.spans):
        narrower = [(request, 0, stop - start)] if start else []
        narrower += [(request, start, value) for value in _smaller(stop, start + 1)]
        for span in narrower:
            yield replace(event, spans=(*event.spans[:i], span, *event.spans[i + 1 :]))


_SIMPLER: dict[type[ev.Event], Callable[[Any], Iterator[ev.Event]]] = {
    ev.Alloc: lambda event: _fields(event, count=1),
    ev.AllocExtend: _extend,
    ev.AllocDecode: _decode,
    ev.AllocExtendSwaTail: _tail,
    ev.Free: lambda event: _fields(event, start=0),
    ev.FreeSwa: _span,
    ev.SetMapping: _span,
    ev.RegisterMapping: _span,
    ev.BeginForward: _batch,
    ev.Translate: _span,
    ev.CpuCopy: _span,
    ev.LoadCpuCopy: lambda event: _fields(event, start=0),
    ev.Move: lambda event: _fields(event, count=1, source=0, target=0),
}
