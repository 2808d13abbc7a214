"""What is simpler: the cost of a tape, and smaller caches.

An event knows its simpler versions; see `Event.simpler`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...models.config import FULL, SWA, Config
from ..core.event import Event
from ..parts import registry
from ..parts.allocator.forwards import STORAGES

__all__ = ["cost", "simpler_configs"]


def cost(config: Config, events: tuple[Event, ...]) -> tuple[int, ...]:
    """What a shrink makes smaller: events first, then the cache, then what the events ask for."""
    cache = config.page_size + len(config.layers) * 4 + config.full_size + config.swa_size + config.need_sort
    cache += config.host_full_size + config.host_swa_size
    cache += config.spec_steps + config.spec_topk + config.spec_draft_tokens + config.bigram
    return len(events), cache, sum(map(_weight, events))


def _weight(event: Event) -> int:
    return sum(map(_size, event.arguments().values()))


def _size(value: object) -> int:
    if isinstance(value, tuple):
        return 2 + sum(map(_size, value))
    if isinstance(value, str):
        return STORAGES.index(value) if value in STORAGES else 0
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
