"""Forwards of a scheduler: a chunk of a prompt and a decode step, layer by layer, and what refuses them."""

from __future__ import annotations

from collections.abc import Callable

from ....models.requests import Phase
from .step import EngineStep, Written

__all__ = ["Forward", "chunk", "decode", "host_short", "judges", "read_back", "refuse", "run_layers", "running"]

Forward = Callable[[EngineStep, list[Written]], None]
"""Runs a forward over tokens that have slots."""


def chunk(step: EngineStep, number: int, count: int, forward: Forward) -> bool:
    """Compute the next `count` tokens of a prompt; False if the request is not at that."""
    request = step.world.requests.get(number)
    if request is None or request.phase is not Phase.ADMITTED or request.unsaved or count < 1:
        return False
    start = request.computed
    span = Written(number, start, min(start + count, request.prompt))
    step.effect = step.event.changed(count=span.stop - start)
    judged = judges(step)
    if step.target.prefill(number, span.stop - start) is None:
        refuse(step, [span], judged)
        return True
    step.world.computed(number, span.stop - start)
    forward(step, [span])
    step.extended([number])
    return True


def running(step: EngineStep, numbers: tuple[int, ...], count: int) -> list[int]:
    """Those of the requests that can decode `count` more tokens, each once."""
    known, goes_on = step.world.requests, step.world.config.goes_on
    alive = [number for number in dict.fromkeys(numbers) if step.world.decodes(number)]
    return [number for number in alive if goes_on(len(known[number].tokens), count)]


def decode(step: EngineStep, numbers: tuple[int, ...], token: int, forward: Forward) -> bool:
    """One step of the running requests among these; False if there are none."""
    ready = running(step, numbers, 1)
    if not ready:
        return False
    step.effect = step.event.changed(requests=tuple(ready))
    spans = [Written(number, (start := step.world.requests[number].computed), start + 1) for number in ready]
    judged = judges(step)
    locs = step.target.decode(ready, [token] * len(ready))
    step.world.merged()
    if locs is None:
        refuse(step, spans, judged)
        return True
    for number in ready:
        step.world.decoded(number, token)
    forward(step, spans)
    return True


def judges(step: EngineStep) -> bool:
    """Whether the eviction that comes now must give all that nobody locks. What a queued transfer pins may stay. What a
    write-back finds no room for on the host may not: it is dropped, with all that is on the host below it."""
    return not step.target.pending()


def host_short(step: EngineStep) -> bool:
    """Whether a write-back of all that has no backup would not fit the free slots of the host."""
    if not step.world.config.host_full_size or step.world.config.write_policy != "write_back":
        return False
    room, tree = step.target.raw_host_free(), step.target.raw_tree()
    full = sum(len(node.full) for node in tree if node.full and not node.host_full)
    swa = sum(len(node.swa) for node in tree if node.swa and not node.host_swa)
    return full > len(room.full) or swa > len(room.swa)


def refuse(step: EngineStep, spans: list[Written], judged: bool) -> None:
    """The target found no room for these tokens even after an eviction, which may be judged or not."""
    pages, size = step.world.config.pages, step.world.config.page_size
    step.refused = need = sum(pages(stop) - pages(start) for _, start, stop in spans)
    if judged:
        step.owed = (need - len(step.free.full)) * size, (need - len(step.free.swa)) * size
    step.world.saw("refused")


def run_layers(step: EngineStep, spans: list[Written]) -> None:
    """Every layer writes the batch's rows, then attention reads what it attends to."""
    world, target = step.world, step.target
    if target.pending():
        world.saw("forward_over_flight")
    for layer in range(len(world.config.layers)):
        tags = [tag for span in spans for tag in world.row_tags(*span, layer)]
        target.write([(span.request, span.start, span.stop) for span in spans], layer, tags)
        read_back(step, spans, layer)
    step.written = spans


def read_back(step: EngineStep, spans: list[Written], layer: int) -> None:
    """Attention of these tokens reads what it attends to at a layer."""
    for span in spans:
        start, stop = step.world.attended(span.request, span.start, layer)
        step.reads.append((span.request, start, layer, step.target.read(span.request, start, stop, layer)))
