"""From an engine-level event to the target's calls: the part of the scheduler.

Each function returns False if the event does not apply now; it is then skipped, on any target and
in any shrunk tape alike. One that asks for more than there is says in `EngineStep.effect` what it came to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ....models.requests import Phase, Request
from ...core.event import Event
from . import events as ee
from .step import EngineStep, Written

__all__ = ["MAX_TOKENS", "PLAY", "Forward", "chunk", "decode", "judges", "read_back", "refuse", "run_layers", "running"]

MAX_TOKENS = 96
"""Tokens of a request at most; the engines' request tables here have room for 128."""

Forward = Callable[[EngineStep, list[Written]], None]
"""Runs a forward over tokens that have slots."""


def _get(step: EngineStep, number: int) -> Request | None:
    return step.world.requests.get(number)


def _arrive(step: EngineStep, event: ee.Arrive) -> bool:
    if event.request in step.world.requests or not 1 < len(event.tokens) <= MAX_TOKENS:
        return False
    step.world.arrive(event.request, list(event.tokens))
    return True


def _admit(step: EngineStep, event: ee.Admit) -> bool:
    request = _get(step, event.request)
    if request is None or request.phase is not Phase.WAITING:
        return False
    admission = step.target.admit(event.request, request.tokens)
    if admission is None:
        return True
    step.admission = admission
    step.world.admit(event.request, admission.cached)
    if admission.cached > admission.loaded:
        step.world.saw("prefix_hit")
    if admission.loaded:
        step.world.saw("host_hit")
    return True


def _prefill(step: EngineStep, event: ee.Prefill) -> bool:
    return chunk(step, event.request, event.count, run_layers)


def chunk(step: EngineStep, number: int, count: int, forward: Forward) -> bool:
    """Compute the next `count` tokens of a prompt; False if the request is not at that."""
    request = _get(step, number)
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
    return True


def _decode(step: EngineStep, event: ee.Decode) -> bool:
    return decode(step, event.requests, event.token, run_layers)


def running(step: EngineStep, numbers: tuple[int, ...], count: int) -> list[int]:
    """Those of the requests that can decode `count` more tokens, each once."""
    known = {number: _get(step, number) for number in numbers}
    return [
        number
        for number, request in known.items()
        if request is not None and request.phase is Phase.RUNNING and len(request.tokens) + count <= MAX_TOKENS
    ]


def decode(step: EngineStep, numbers: tuple[int, ...], token: int, forward: Forward) -> bool:
    """One step of the running requests among these; False if there are none."""
    ready = running(step, numbers, 1)
    if not ready:
        return False
    step.effect = step.event.changed(requests=tuple(ready))
    spans = [Written(number, (start := step.world.requests[number].computed), start + 1) for number in ready]
    judged = judges(step)
    if step.target.decode(ready, [token] * len(ready)) is None:
        refuse(step, spans, judged)
        return True
    for number in ready:
        step.world.append(number, token)
        step.world.computed(number, 1)
    forward(step, spans)
    return True


def judges(step: EngineStep) -> bool:
    """Whether the eviction that comes now must give all that nobody locks. What a queued transfer pins may stay, and
    so may what a write-back finds no room for on the host."""
    if step.target.pending():
        return False
    if step.world.config.host_full_size and step.world.config.write_policy == "write_back":
        room, tree = step.target.raw_host_free(), step.target.raw_tree()
        full = sum(len(node.full) for node in tree if node.full and not node.host_full)
        swa = sum(len(node.swa) for node in tree if node.swa and not node.host_swa)
        return full <= len(room.full) and swa <= len(room.swa)
    return True


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


def _checkpoint(step: EngineStep, event: ee.Checkpoint) -> bool:
    request = _get(step, event.request)
    if request is None or not request.unsaved:
        return False
    step.target.checkpoint(event.request)
    step.world.checkpoint(event.request)
    return True


def _evict_window(step: EngineStep, event: ee.EvictWindow) -> bool:
    request = _get(step, event.request)
    if request is None or not request.settled:
        return False
    step.target.evict_window(event.request)
    return True


def _finish(step: EngineStep, event: ee.Finish) -> bool:
    request = _get(step, event.request)
    if request is None or request.phase is not Phase.RUNNING:
        return False
    step.target.finish(event.request)
    step.world.leave(event.request, aborted=False)
    return True


def _abort(step: EngineStep, event: ee.Abort) -> bool:
    request = _get(step, event.request)
    if request is None or not request.settled:
        return False
    step.target.abort(event.request)
    step.world.leave(event.request, aborted=True)
    return True


def _evict(step: EngineStep, event: ee.Evict) -> bool:
    judged, quiet = judges(step), not step.target.pending()
    before, size = step.target.raw_free(), step.world.config.page_size
    step.target.evict(event.full, event.swa)
    if not judged:
        if quiet:
            step.world.saw("host_short")
        return True
    full, swa = len(step.free.full) - len(before.full), len(step.free.swa) - len(before.swa)
    step.owed = event.full - full * size, event.swa - swa * size
    if full + swa:
        step.effect = ee.Evict(min(event.full, full * size), min(event.swa, swa * size))
    return True


def _transfer_done(step: EngineStep, event: ee.TransferDone) -> bool:
    pending = step.target.pending()
    if not pending or event.count < 1:
        return False
    step.effect = replace(event, count=min(event.count, pending))
    step.target.transfer_done(min(event.count, pending))
    return True


def _flush(step: EngineStep, event: ee.Flush) -> bool:
    if any(request.phase is not Phase.WAITING for request in step.world.requests.values()) or step.target.pending():
        return False
    step.target.flush()
    step.world.saw("flushed")
    return True


PLAY: dict[type[Event], Callable[[EngineStep, Any], bool]] = {
    ee.Arrive: _arrive,
    ee.Admit: _admit,
    ee.Prefill: _prefill,
    ee.Decode: _decode,
    ee.Checkpoint: _checkpoint,
    ee.EvictWindow: _evict_window,
    ee.Finish: _finish,
    ee.Abort: _abort,
    ee.Evict: _evict,
    ee.TransferDone: _transfer_done,
    ee.Flush: _flush,
}
"""Event type -> play it, if it applies."""
