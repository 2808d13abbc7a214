"""From an event on a decode node to the target's calls: the scheduler's part, and the sender's.

As at the engine level, a function returns False if the event does not apply now; it is then skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ....models.decode_node import DecodeRequest, Stage
from ...core.event import Event
from ...targets.disagg import MAX_REQUESTS
from ..engine import events as ee
from ..engine.play import MAX_TOKENS, refuse, run_layers
from ..engine.step import Written
from . import events as de
from .step import Before, DisaggStep

__all__ = ["DISAGG_PLAY"]

_STARTED = (Stage.PREBUILT, Stage.RUNNING)


def _enqueue(step: DisaggStep, event: de.Enqueue) -> bool:
    alive = step.world.requests
    if event.request in alive or len(alive) >= MAX_REQUESTS or event.most < 1:
        return False
    if not 1 < len(event.tokens) <= MAX_TOKENS:
        return False
    step.world.enqueue(event.request, event.tokens, event.most)
    step.asked = step.world.job(event.request)
    step.accepted = step.node.enqueue(event.request, list(event.tokens), event.most)
    if not step.accepted:
        step.world.leave(event.request, aborted=False)
    return True


def _preallocate(step: DisaggStep, _event: de.Preallocate) -> bool:
    world = step.world
    if not world.queues[Stage.QUEUED]:
        return False
    step.before = Before.of(step.node)
    step.queue = tuple(world.queues[Stage.QUEUED])
    step.round = step.node.preallocate()
    for item in step.round.admitted:
        world.admit(item.request, item.cached, item.full, item.swa)
    for number in step.round.failed:
        world.leave(number, aborted=True)
    return True


def _transfer(step: DisaggStep, event: de.Transfer) -> bool:
    if step.world.stage(event.request) is not Stage.TRANSFERRING or event.pages < 1:
        return False
    request = step.world.job(event.request)
    first, request.received = request.received, min(request.received + event.pages, len(request.full))
    step.effect = replace(event, pages=max(1, request.received - first))
    last = request.received == len(request.full)
    for layer, swa in enumerate(step.world.swa_layers):
        if not swa:
            _send(step, event.request, layer, request.cached, request.full, first, request.received)
        elif last:
            start = step.world.accounts.sent_from(request.prompt, request.cached, len(request.swa))
            _send(step, event.request, layer, start, request.swa, 0, len(request.swa))
    if last:
        step.node.arrived(event.request, event.token)
        step.world.arrived(event.request, event.token)
    else:
        step.world.saw("transferred_in_parts")
    return True


def _send(step: DisaggStep, number: int, layer: int, start: int, pages: tuple[int, ...], first: int, stop: int) -> None:
    """The sender writes pages `first` to `stop` of those it was told, which hold the tokens from `start` on."""
    size, prompt = step.world.config.page_size, step.world.job(number).prompt
    begin = start + first * size
    end = min(start + stop * size, prompt)
    slots = [page * size + offset for page in pages[first:stop] for offset in range(size)][: end - begin]
    step.node.receive(layer, slots, step.world.row_tags(number, begin, end, layer))


def _start(step: DisaggStep, _event: de.Start) -> bool:
    step.started = tuple(step.world.queues[Stage.WAITING])
    if not step.started:
        return False
    step.node.start()
    merged = set(step.queues.running)
    for number in step.started:
        step.world.move(number, Stage.RUNNING if number in merged else Stage.PREBUILT)
    return True


def _decode(step: DisaggStep, event: ee.Decode) -> bool:
    world = step.world
    ready = [number for number in dict.fromkeys(event.requests) if _goes_on(step, number)]
    if not ready:
        return False
    step.effect = replace(event, requests=tuple(ready))
    spans = [Written(number, (start := world.job(number).computed), start + 1) for number in ready]
    locs = step.node.decode(ready, [event.token] * len(ready))
    for number in list(world.queues[Stage.PREBUILT]):
        world.move(number, Stage.RUNNING)
    if locs is None:
        refuse(step, spans, judged=True)
        return True
    for number in ready:
        world.decoded(number, event.token)
    run_layers(step, spans)
    return True


def _goes_on(step: DisaggStep, number: int) -> bool:
    if step.world.stage(number) not in _STARTED:
        return False
    request: DecodeRequest = step.world.job(number)
    return request.outputs < request.most and len(request.tokens) < MAX_TOKENS


def _evict_window(step: DisaggStep, event: ee.EvictWindow) -> bool:
    if step.world.stage(event.request) is not Stage.RUNNING:
        return False
    step.before = Before.of(step.node)
    step.node.evict_window(event.request)
    return True


def _retract(step: DisaggStep, event: de.Retract) -> bool:
    if step.world.stage(event.request) is not Stage.RUNNING:
        return False
    step.before = Before.of(step.node)
    world, config, request = step.world, step.world.config, step.world.job(event.request)
    row = step.before.requests[event.request].row[: request.computed]
    request.copied(tuple(step.before.mapping[loc] > 0 for loc in row))
    step.node.retract(event.request)
    if world.accounts.rejects(request, config.full_size, config.swa_size):
        world.leave(event.request, aborted=True)  # nothing could resume it
        world.saw("outgrown")
    else:
        world.move(event.request, Stage.RETRACTED)
    return True


def _resume(step: DisaggStep, _event: de.Resume) -> bool:
    if not step.world.queues[Stage.RETRACTED]:
        return False
    step.before = Before.of(step.node, len(step.world.config.layers))
    step.queue = tuple(step.world.queues[Stage.RETRACTED])
    step.resumed = step.node.resume()
    for number in step.resumed:
        step.world.move(number, Stage.WAITING)
    return True


def _finish(step: DisaggStep, event: ee.Finish) -> bool:
    if step.world.stage(event.request) not in _STARTED:
        return False
    step.node.finish(event.request)
    step.world.leave(event.request, aborted=False)
    return True


def _abort(step: DisaggStep, event: ee.Abort) -> bool:
    stage = step.world.stage(event.request)
    if stage is None:
        return False
    step.node.abort(event.request)
    step.world.leave(event.request, aborted=True)
    step.world.saw(f"aborted_{stage.value}")
    return True


def _evict(step: DisaggStep, event: ee.Evict) -> bool:
    if not step.world.config.decode_tree:
        return False
    before, size = step.node.raw_free(), step.world.config.page_size
    step.node.evict(event.full, event.swa)
    full, swa = len(step.free.full) - len(before.full), len(step.free.swa) - len(before.swa)
    step.owed = event.full - full * size, event.swa - swa * size
    return True


def _draft_slots(step: DisaggStep, event: de.DraftSlots) -> bool:
    ready = [number for number in dict.fromkeys(event.requests) if step.world.stage(number) is Stage.RUNNING]
    if not ready or event.count < 1:
        return False
    step.node.draft_slots(ready, event.count)
    return True


DISAGG_PLAY: dict[type[Event], Callable[[DisaggStep, Any], bool]] = {
    de.Enqueue: _enqueue,
    de.Preallocate: _preallocate,
    de.Transfer: _transfer,
    de.Start: _start,
    de.Retract: _retract,
    de.Resume: _resume,
    de.DraftSlots: _draft_slots,
    ee.Decode: _decode,
    ee.EvictWindow: _evict_window,
    ee.Finish: _finish,
    ee.Abort: _abort,
    ee.Evict: _evict,
}
"""Event type -> play it, if it applies."""
