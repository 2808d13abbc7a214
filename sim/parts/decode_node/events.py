"""What a scheduler does on a decode node, beside the engine level's events.

As there, an event that does not apply is skipped. `Decode`, `EvictWindow`, `Finish`, `Abort` and `Evict` are
the engine level's: here a step covers running and prebuilt requests, and a request can be aborted at any point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ....models.decode_node import Stage
from ...core.event import Event, events_in
from ...targets.disagg import MAX_REQUESTS
from ..engine.events import EngineEvent, fewer, plain_prompt, shorter_prompts
from .step import Before, DisaggStep

__all__ = [
    "ALL_PAGES", "DISAGG_EVENTS",
    "DraftSlots", "Enqueue", "Preallocate", "Resume", "Retract", "Start", "Transfer",
]  # fmt: skip

ALL_PAGES = 96
"""More pages than a prompt has, unless a context length allows more."""


@dataclass(frozen=True)
class Enqueue(EngineEvent):
    """A request with this prompt and for `most` new tokens at most waits for slots."""

    kind = "enqueue"
    request: int
    tokens: tuple[int, ...]
    most: int

    def play(self, step: DisaggStep) -> bool:
        alive = step.world.requests
        if self.request in alive or len(alive) >= MAX_REQUESTS or self.most < 1:
            return False
        config = step.world.config
        if not 1 < len(self.tokens) <= config.longest_prompt:
            return False
        if config.context_len and len(self.tokens) + self.most > config.most_tokens:
            return False
        step.world.enqueue(self.request, self.tokens, self.most)
        step.asked = step.world.job(self.request)
        step.enqueued = step.node.enqueue(self.request, list(self.tokens), self.most)
        if not step.enqueued:
            step.world.leave(self.request, aborted=False)
        return True

    def simpler(self) -> Iterator[Event]:
        yield from shorter_prompts(self)
        yield from fewer(self, "most", 1, self.most // 2, self.most - 1)
        yield from plain_prompt(self)


@dataclass(frozen=True)
class Preallocate(EngineEvent):
    """A round of preallocation (``pop_preallocated``)."""

    kind = "preallocate"

    def play(self, step: DisaggStep) -> bool:
        world = step.world
        if not world.queues[Stage.QUEUED]:
            return False
        step.remember()
        step.queue = tuple(world.queues[Stage.QUEUED])
        step.round = step.node.preallocate()
        for item in step.round.admitted:
            world.admit(item.request, item.cached, item.full, item.swa)
            if item.loaded:
                world.saw("host_hit")
        for number in step.round.failed:
            world.leave(number, aborted=True)
        return True


@dataclass(frozen=True)
class Transfer(EngineEvent):
    """The sender writes the next `pages` full pages of a prompt; with the last one come the SWA pages of its window
    and the first output token (``pop_transferred``)."""

    kind = "transfer"
    request: int
    pages: int
    token: int

    def play(self, step: DisaggStep) -> bool:
        if step.world.stage(self.request) is not Stage.TRANSFERRING or self.pages < 1:
            return False
        request = step.world.job(self.request)
        first, request.received = request.received, min(request.received + self.pages, len(request.full))
        step.effect = replace(self, pages=max(1, request.received - first))
        last = request.received == len(request.full)
        for layer, swa in enumerate(step.world.swa_layers):
            if not swa:
                _send(step, self, layer, request.cached, request.full, first, request.received)
            elif last:
                start = step.world.accounts.sent_from(request.prompt, request.cached, len(request.swa))
                _send(step, self, layer, start, request.swa, 0, len(request.swa))
        if last:
            step.node.arrived(self.request, self.token)
            step.world.arrived(self.request, self.token)
        else:
            step.world.saw("transferred_in_parts")
        return True

    def simpler(self) -> Iterator[Event]:
        if self.pages < ALL_PAGES:
            yield replace(self, pages=ALL_PAGES)
        yield from fewer(self, "token", 1)


@dataclass(frozen=True)
class Start(EngineEvent):
    """Everything whose KV is there becomes a batch that skips its prefill (``get_new_prebuilt_batch``)."""

    kind = "start"

    def play(self, step: DisaggStep) -> bool:
        step.started = tuple(step.world.queues[Stage.WAITING])
        if not step.started:
            return False
        step.node.start()
        merged = set(step.queues.running)
        for number in step.started:
            step.world.move(number, Stage.RUNNING if number in merged else Stage.PREBUILT)
        return True


@dataclass(frozen=True)
class Retract(EngineEvent):
    """A running request frees its slots; its KV goes to the CPU (``retract_decode``, ``offload_kv_cache``)."""

    kind = "retract"
    request: int

    def play(self, step: DisaggStep) -> bool:
        if not step.world.may_retract(self.request):
            return False
        before = step.remember()
        world, config, request = step.world, step.world.config, step.world.job(self.request)
        row = before.requests[self.request].row[: request.computed]
        request.copied(tuple(before.mapping[loc] > 0 for loc in row))
        step.node.retract(self.request)
        if world.accounts.rejects(request, config.full_size, config.swa_size):
            world.leave(self.request, aborted=True)  # nothing could resume it
            world.saw("outgrown")
        else:
            world.move(self.request, Stage.RETRACTED)
        return True


@dataclass(frozen=True)
class Resume(EngineEvent):
    """Retracted requests get fresh slots and their KV back (``resume_retracted_reqs``, ``load_kv_cache``)."""

    kind = "resume"

    def play(self, step: DisaggStep) -> bool:
        if not step.world.queues[Stage.RETRACTED]:
            return False
        step.before = Before.of(step.node, len(step.world.config.layers), step.target.pending() > 0)
        step.queue = tuple(step.world.queues[Stage.RETRACTED])
        step.resumed = step.node.resume()
        for number in step.resumed:
            step.world.resumed(number)
        return True


@dataclass(frozen=True)
class DraftSlots(EngineEvent):
    """Running requests take slots for `count` draft tokens each and give them back by putting the free lists back
    (``backup_state``, ``restore_state``: EAGLE v1 with several branches takes more than it verifies)."""

    kind = "draft_slots"
    requests: tuple[int, ...]
    count: int

    def play(self, step: DisaggStep) -> bool:
        ready = [number for number in dict.fromkeys(self.requests) if step.world.stage(number) is Stage.RUNNING]
        if not ready or self.count < 1:
            return False
        step.node.draft_slots(ready, self.count)
        return True


def _send(
    step: DisaggStep, event: Transfer, layer: int, start: int, pages: tuple[int, ...], first: int, stop: int
) -> None:
    """The sender writes pages `first` to `stop` of those it was told, which hold the tokens from `start` on."""
    number, size = event.request, step.world.config.page_size
    prompt = step.world.job(number).prompt
    begin = start + first * size
    end = min(start + stop * size, prompt)
    slots = [page * size + offset for page in pages[first:stop] for offset in range(size)][: end - begin]
    step.node.receive(layer, slots, step.world.row_tags(number, begin, end, layer))
    step.sent(event, layer, slots, begin, end)


DISAGG_EVENTS = events_in(__name__, EngineEvent)
"""Every event type of its own."""
