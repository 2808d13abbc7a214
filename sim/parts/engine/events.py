"""The engine-level alphabet: what a scheduler does with whole requests.

Whether an event applies depends on how the target fared before (a prefill may have found no room),
so an event that does not apply is skipped; every sequence of them is a legal tape. The order a
scheduler keeps is in the play: a chunk is checkpointed before the next one, a request decodes once
its whole prompt is in, its window is evicted between steps only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ....models.requests import Phase
from ...core.event import Event, Role, Roles, events_in
from ...targets.engine import RESULTS
from .forwards import chunk, decode, host_short, judges, run_layers
from .step import EngineStep

__all__ = [
    "ENGINE_EVENTS", "HOST", "LOCAL_PREFILL", "PLAIN_DECODE", "REQUESTS",
    "EngineEvent", "Abort", "Admit", "Arrive", "Checkpoint", "Decode", "Evict", "EvictWindow",
    "Finish", "Flush", "Prefill", "Results", "TransferDone", "fewer", "fewer_requests", "fewer_tokens", "plain_prompt",
    "shorter_prompts",
]  # fmt: skip


REQUESTS = "requests"
LOCAL_PREFILL = "local prefill"
PLAIN_DECODE = "plain"
HOST = "host"


@dataclass(frozen=True)
class EngineEvent(Event):
    """One step of a tape of whole requests.

    Attributes:
        part: of an event in this module, the name of the part whose tapes have it; every tape has those of `REQUESTS`.
        weight: how often it is drawn beside the other events; 0 if only the author knows when its time has come.
    """

    part: ClassVar[str] = REQUESTS
    weight: ClassVar[int] = 0

    @classmethod
    def draw(cls, author: Any) -> EngineEvent:
        """An event with parameters for this moment of a tape, if it has a `weight`.

        Args:
            author: writes the tape. Every author has `choices`, `size` and `pages` of the cache, `token()`,
                `any_request()`, `batch()` (the requests that may run) and `gone()` (one that leaves now).
        """
        raise NotImplementedError

    def play(self, step: Any) -> bool:
        """Ask the target, and enter what it answered in the world of `step`, an `EngineStep` of the session's kind.

        Returns False, and does nothing, if the event does not apply now; it is then skipped, on any target and in any
        shrunk tape alike. An event that asks for more than there is notes in ``step.effect`` how it took effect.
        """
        raise NotImplementedError

    def simpler(self) -> Iterator[Event]:
        """Simpler versions of the event, the boldest first."""
        return iter(())


def fewer(event: Event, field: str, *values: int) -> Iterator[Event]:
    """The event with a smaller number in a field: each of these that is at least 1."""
    now = event.arguments()[field]
    for value in dict.fromkeys(values):
        if 1 <= value < now:
            yield event.changed(**{field: value})


def fewer_requests(event: Any) -> Iterator[Event]:
    """The event for one request fewer."""
    if len(event.requests) > 1:
        for i in range(len(event.requests)):
            yield event.changed(requests=event.requests[:i] + event.requests[i + 1 :])


def fewer_tokens(event: Any) -> Iterator[Event]:
    """A proposal for one request fewer, of one token fewer, or of ones only."""
    yield from fewer_requests(event)
    if len(event.tokens) > 1:
        yield event.changed(tokens=event.tokens[:-1])
    plain = (1,) * len(event.tokens)
    if event.tokens != plain:
        yield event.changed(tokens=plain)


def shorter_prompts(event: Any) -> Iterator[Event]:
    """The event with a shorter prompt."""
    length = len(event.tokens)
    for shorter in dict.fromkeys((2, length // 2, length - 1)):
        if 2 <= shorter < length:
            yield event.changed(tokens=event.tokens[:shorter])


def plain_prompt(event: Any) -> Iterator[Event]:
    """The event with a prompt of ones."""
    plain = (1,) * len(event.tokens)
    if event.tokens != plain:
        yield event.changed(tokens=plain)


@dataclass(frozen=True)
class Arrive(EngineEvent):
    """A request with this prompt waits."""

    kind = "arrive"
    part = LOCAL_PREFILL
    request: int
    tokens: tuple[int, ...]

    def play(self, step: EngineStep) -> bool:
        if self.request in step.world.requests or not 1 < len(self.tokens) <= step.world.config.longest_prompt:
            return False
        step.world.arrive(self.request, list(self.tokens))
        return True

    def simpler(self) -> Iterator[Event]:
        yield from shorter_prompts(self)
        yield from plain_prompt(self)


@dataclass(frozen=True)
class Admit(EngineEvent):
    """Match a waiting request's prompt, lock what is cached, load back what is on the host (``match_prefix``)."""

    kind = "admit"
    part = LOCAL_PREFILL
    request: int

    def play(self, step: EngineStep) -> bool:
        world = step.world
        request = world.requests.get(self.request)
        if request is None or request.phase is not Phase.WAITING:
            return False
        admission = step.target.admit(self.request, request.tokens)
        if admission is None:
            return True
        step.admission = admission
        world.admit(self.request, admission.cached)
        if admission.cached > admission.loaded:
            world.saw("prefix_hit")
        if admission.loaded:
            world.saw("host_hit")
        return True


@dataclass(frozen=True)
class Prefill(EngineEvent):
    """Compute the next `count` tokens of a prompt: allocate, write every layer, read what attention reads."""

    kind = "prefill"
    part = LOCAL_PREFILL
    request: int
    count: int

    def play(self, step: EngineStep) -> bool:
        return chunk(step, self.request, self.count, run_layers)

    def simpler(self) -> Iterator[Event]:
        yield from fewer(self, "count", 1, self.count // 2)


@dataclass(frozen=True)
class Checkpoint(EngineEvent):
    """Insert a computed chunk into the tree (``cache_unfinished_req``)."""

    kind = "checkpoint"
    part = LOCAL_PREFILL
    request: int

    def play(self, step: EngineStep) -> bool:
        request = step.world.requests.get(self.request)
        if request is None or not request.unsaved:
            return False
        step.target.checkpoint(self.request)
        step.world.checkpoint(self.request)
        return True


@dataclass(frozen=True)
class Evict(EngineEvent):
    """The tree evicts this many tokens of each pool, as far as nothing locks them."""

    kind = "evict"
    weight = 8
    full: int
    swa: int

    @classmethod
    def draw(cls, author: Any) -> EngineEvent:
        full = author.choices.pick((0, 1, 2, 4, author.pages)) * author.size
        return cls(full, author.choices.pick((0 if full else 1, 1, 2, 4)) * author.size)

    def play(self, step: EngineStep) -> bool:
        if not step.has_tree:
            return False
        judged = judges(step)
        if judged and host_short(step):
            step.world.saw("host_short")
        before, size = step.target.raw_free(), step.world.config.page_size
        step.target.evict(self.full, self.swa)
        if not judged:
            return True
        full, swa = len(step.free.full) - len(before.full), len(step.free.swa) - len(before.swa)
        step.owed = self.full - full * size, self.swa - swa * size
        if full + swa:
            step.effect = Evict(min(self.full, full * size), min(self.swa, swa * size))
        return True

    def simpler(self) -> Iterator[Event]:
        for full, swa in ((0, self.swa), (self.full, 0), (self.full // 2, self.swa), (self.full, self.swa // 2)):
            if (full, swa) != (self.full, self.swa) and full + swa:
                yield Evict(full, swa)


@dataclass(frozen=True)
class EvictWindow(EngineEvent):
    """A request frees the SWA slots that no later token of it attends to."""

    kind = "evict_window"
    weight = 6
    request: int

    @classmethod
    def draw(cls, author: Any) -> EngineEvent:
        return cls(author.any_request())

    def play(self, step: EngineStep) -> bool:
        if not step.world.may_evict_window(self.request):
            return False
        step.remember()
        step.target.evict_window(self.request)
        return True


@dataclass(frozen=True)
class TransferDone(EngineEvent):
    """The oldest `count` transfers between device and host are over."""

    kind = "transfer_done"
    part = HOST
    weight = 6
    count: int

    @classmethod
    def draw(cls, author: Any) -> EngineEvent:
        return cls(author.choices.integer(1, 4))

    def play(self, step: EngineStep) -> bool:
        pending = step.target.pending()
        if not pending or self.count < 1:
            return False
        step.effect = replace(self, count=min(self.count, pending))
        step.target.transfer_done(min(self.count, pending))
        return True

    def simpler(self) -> Iterator[Event]:
        yield from fewer(self, "count", 1)


@dataclass(frozen=True)
class Finish(EngineEvent):
    """A running request is done and inserted (``cache_finished_req``)."""

    kind = "finish"
    weight = 3
    request: int

    @classmethod
    def draw(cls, author: Any) -> EngineEvent:
        return cls(author.gone())

    def play(self, step: EngineStep) -> bool:
        if not step.world.may_finish(self.request):
            return False
        step.target.finish(self.request)
        step.world.leave(self.request, aborted=False)
        return True


@dataclass(frozen=True)
class Abort(EngineEvent):
    """A request is gone and not inserted: abort or retraction."""

    kind = "abort"
    weight = 3
    request: int

    @classmethod
    def draw(cls, author: Any) -> EngineEvent:
        return cls(author.gone())

    def play(self, step: EngineStep) -> bool:
        if not step.world.may_abort(self.request):
            return False
        step.target.abort(self.request)
        step.world.abort(self.request)
        return True


@dataclass(frozen=True)
class Decode(EngineEvent):
    """One step of the running requests among these; each appends `token`."""

    kind = "decode"
    part = PLAIN_DECODE
    weight = 12
    requests: tuple[int, ...]
    token: int

    @classmethod
    def draw(cls, author: Any) -> EngineEvent:
        return cls(author.batch() or (0,), author.token())

    def play(self, step: EngineStep) -> bool:
        return decode(step, self.requests, self.token, run_layers)

    def simpler(self) -> Iterator[Event]:
        yield from fewer_requests(self)
        yield from fewer(self, "token", 1)


@dataclass(frozen=True)
class Flush(EngineEvent):
    """Reset tree and pools, if no request is admitted (``flush_cache``)."""

    kind = "flush"
    part = LOCAL_PREFILL
    weight = 1

    @classmethod
    def draw(cls, author: Any) -> EngineEvent:
        return cls()

    def play(self, step: EngineStep) -> bool:
        requests = step.world.requests.values()
        if any(request.phase is not Phase.WAITING for request in requests) or step.target.pending():
            return False
        step.target.flush()
        step.world.saw("flushed")
        return True


@dataclass(frozen=True)
class Results(EngineEvent):
    """The results of a batch are processed inside one free group, in the order of the batch
    (``process_batch_result_decode``, ``_prefill`` and ``_prebuilt``): some requests are finished, some aborted, and of
    those that go on, a prompt that was just computed is checkpointed.

    A chunk in the middle of a prompt is not: its checkpoint comes later, outside the group. A request whose prompt was
    just computed may finish with its first token, before any checkpoint.
    """

    kind = "results"
    weight = 4
    requests: tuple[int, ...]
    finished: tuple[int, ...]
    aborted: tuple[int, ...]

    def roles(self) -> Roles:
        return {"requests": Role.REQUESTS, "finished": Role.REQUESTS, "aborted": Role.REQUESTS}

    @classmethod
    def draw(cls, author: Any) -> EngineEvent:
        drawn: Results = author.results()
        return drawn

    def play(self, step: EngineStep) -> bool:
        world, target = step.world, step.target
        kinds = {number: world.result_of(number) for number in dict.fromkeys(self.requests)}
        kind = next((kind for kind in RESULTS if kind in kinds.values()), None)
        if kind is None:
            return False
        with_it = {kind, "decode"} if kind == "prefill" and world.mixes else {kind}
        batch = [number for number, its in kinds.items() if its in with_it]
        computed = [number for number in batch if kinds[number] == "prefill"]
        leaving = [number for number in batch if number in computed or world.may_finish(number)]
        finished = [number for number in leaving if number in self.finished]
        aborted = [number for number in leaving if number in self.aborted and number not in finished]
        if not (finished or aborted or computed):
            return False
        step.effect = Results(tuple(batch), tuple(finished), tuple(aborted))
        step.grouped = target.begin_results(kind)
        for number in batch:
            if number in finished:
                target.finish(number)
            elif number in aborted:
                target.abort_result(number)
            elif number in computed:
                target.checkpoint(number)
        if step.grouped:
            target.end_results()
        for number in computed:
            world.checkpoint(number)
        for number in finished:
            world.leave(number, aborted=False)
        for number in aborted:
            world.abort(number)
        return True

    def simpler(self) -> Iterator[Event]:
        if len(self.requests) == 1:
            yield from self._alone(*self.requests)
        for number in self.requests if len(self.requests) > 1 else ():
            rest = [tuple(it for it in numbers if it != number) for numbers in self.arguments().values()]
            yield Results(*rest)
        for field in ("finished", "aborted"):
            numbers = self.arguments()[field]
            for i in range(len(numbers)):
                yield self.changed(**{field: numbers[:i] + numbers[i + 1 :]})
        if self.aborted:
            yield Results(self.requests, self.finished + self.aborted, ())

    def _alone(self, number: int) -> Iterator[Event]:
        """The result of one request, outside any group."""
        if number in self.finished:
            yield Finish(number)
        elif number in self.aborted:
            yield Abort(number)
        else:
            yield Checkpoint(number)


ENGINE_EVENTS = events_in(__name__, EngineEvent)
"""Every event of whole requests that needs no feature. Tapes are drawn in this order: a new event goes last."""
