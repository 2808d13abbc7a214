"""Forwards: a batch, what its layers write and read, and translations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Self

from ....models.config import SWA
from ...core.event import Event, Role, Roles, Span, smaller, without_one
from ...targets.base import Batch
from .draws import Draws
from .event import OUTSIDE_GROUP, AllocatorEvent, Rule, Step, clipped_span, span_exists, span_words, tokens
from .ledger import Ledger, OpenForward

__all__ = ["MAX_BATCH_OFFSET", "SOURCES", "STORAGES", "BeginForward", "EndForward", "ReadKv", "Translate", "WriteKv"]

MAX_BATCH_OFFSET = 1024
"""Largest offset of a batch's view, in elements."""

STORAGES = ("fresh", "reused", "view")
"""Where the locs of a batch live, the simplest first; see `BeginForward`."""

_SPANS: Roles = MappingProxyType({"spans": (Role.REQUEST, Role.POSITION, Role.END)})


@dataclass(frozen=True)
class BeginForward(AllocatorEvent):
    """Start a forward that writes the tokens of `spans`.

    Attributes:
        storage: where the batch's loc tensor lives: ``"fresh"`` memory, the ``"reused"`` buffer of
            earlier forwards, or a ``"view"`` into it at `offset`.
        offset: elements before the view; 0 unless `storage` is ``"view"``.
        precomputed: the runner hands the pool a translation made up front (``set_swa_loc``).
    """

    kind = "begin_forward"
    words = MappingProxyType({"storage": STORAGES})
    weight = 16
    always = True
    keeps_free_lists = True
    rules = (
        OUTSIDE_GROUP,
        Rule("one forward at a time", lambda le, e: le.forward is None),
        Rule("a batch has tokens", lambda le, e: bool(e.spans)),
        Rule("a request is in a batch once", lambda le, e: len({r for r, _, _ in e.spans}) == len(e.spans)),
        Rule("a batch's tokens are allocated", lambda le, e: all(0 <= s < t <= le.length(r) for r, s, t in e.spans)),
        Rule("storage is fresh, reused or view", lambda le, e: e.storage in STORAGES),
        Rule(
            "only a view has an offset, and it fits the buffer",
            lambda le, e: 0 < e.offset <= MAX_BATCH_OFFSET if e.storage == "view" else e.offset == 0,
        ),
    )
    spans: tuple[Span, ...]
    storage: str = "fresh"
    offset: int = 0
    precomputed: bool = False

    @classmethod
    def propose(cls, draws: Draws) -> Self | None:
        ready = [r for r in range(draws.habits.requests) if draws.ledger.length(r)]
        if not ready:
            return None
        spans = tuple((request, *draws.span(request)) for request in draws.several(ready))
        storage = draws.choices.pick(draws.habits.storages)
        offset = draws.choices.pick((1, draws.habits.unit, 16)) if storage == "view" else 0
        return cls(spans, storage, offset, draws.choices.chance(draws.habits.precomputed))

    def lacks(self, profile: Any) -> str | None:
        reason = super().lacks(profile)
        if reason is None and self.precomputed and not (profile.precomputed or profile.per_forward):
            return "this target takes no translation made up front (set_swa_loc)"
        return reason

    def enter(self, ledger: Ledger) -> None:
        ledger.forward = OpenForward(self.spans, ledger.per_forward or self.precomputed)

    def clip(self, ledger: Ledger) -> BeginForward | None:
        spans = []
        for request, start, stop in self.spans:
            stop = min(stop, ledger.length(request))
            if stop:
                spans.append((request, min(start, stop - 1), stop))
        return replace(self, spans=tuple(spans)) if spans else None

    def perform(self, step: Step) -> None:
        batch = [(request, position) for request, start, stop in self.spans for position in range(start, stop)]
        locs = step.world.begin_forward(batch)
        step.target.begin_forward(Batch(locs, self.storage, self.offset, self.precomputed))

    def adopt(self, step: Step) -> None:
        if self.storage == "reused":
            step.world.saw("storage_reused")
        elif self.storage == "view":
            step.world.saw("view_at_offset")
        if self.precomputed:
            step.world.saw("precomputed")
            assert step.world.forward is not None
            step.world.mapping.use(step.index, step.world.forward.locs)

    def say(self, ledger: Ledger) -> str:
        batch = "; ".join(span_words(*span) for span in self.spans)
        where = {
            "fresh": "locs in fresh memory",
            "reused": "locs in the reused buffer",
            "view": f"locs in the reused buffer at offset {self.offset}",
        }[self.storage]
        up_front = ", translated up front (set_swa_loc)" if self.precomputed else ""
        return f"{batch}; {where}{up_front}"

    def roles(self) -> Roles:
        return _SPANS

    def simpler(self) -> Iterator[Event]:
        for spans in without_one(self.spans):
            yield replace(self, spans=spans)
        if self.precomputed:
            yield replace(self, precomputed=False)
        for storage in STORAGES[: STORAGES.index(self.storage)]:
            yield replace(self, storage=storage, offset=0)
        for i, (request, start, stop) in enumerate(self.spans):
            narrower = [(request, 0, stop - start)] if start else []
            narrower += [(request, start, value) for value in smaller(stop, start + 1)]
            for span in narrower:
                yield replace(self, spans=(*self.spans[:i], span, *self.spans[i + 1 :]))


_FORWARD = Rule(
    "no forward is running, or a request of its batch has lost tokens",
    lambda ledger, event: ledger.forward is not None and not ledger.forward.broken,
)


def _next_layer(ledger: Ledger) -> int:
    """The layer that the running forward writes next, 0 if none is running."""
    return 0 if ledger.forward is None else ledger.forward.next_layer


def _layer_words(ledger: Ledger, layer: int) -> str:
    return f"layer {layer} ({'SWA' if ledger.config.layers[layer] == SWA else 'full'})"


@dataclass(frozen=True)
class WriteKv(AllocatorEvent):
    """Write the running batch's KV at one layer (``set_kv_buffer``)."""

    kind = "write_kv"
    weight = 24
    always = True
    keeps_free_lists = True
    rules = (
        OUTSIDE_GROUP,
        _FORWARD,
        Rule("a forward runs all layers in order from the first", lambda le, e: e.layer == _next_layer(le)),
        Rule("the model has no such layer", lambda le, e: e.layer < len(le.config.layers)),
    )
    layer: int

    @classmethod
    def propose(cls, draws: Draws) -> Self | None:
        forward = draws.ledger.forward
        return cls(forward.next_layer) if forward is not None else None

    def enter(self, ledger: Ledger) -> None:
        assert ledger.forward is not None
        ledger.forward.next_layer += 1

    def clip(self, ledger: Ledger) -> WriteKv | None:
        return None if ledger.forward is None else WriteKv(ledger.forward.next_layer)

    def perform(self, step: Step) -> None:
        tags = step.world.new_tags(self.layer)
        step.target.write_kv(self.layer, tags)
        step.written = (self.layer, tags)
        step.touched = (self.layer,)

    def adopt(self, step: Step) -> None:
        assert step.written is not None
        step.world.write(*step.written)

    def say(self, ledger: Ledger) -> str:
        return f"{_layer_words(ledger, self.layer)}: KV of the batch"


@dataclass(frozen=True)
class ReadKv(AllocatorEvent):
    """Read what attention reads at a layer: up to the batch's positions in a full layer, the window in an SWA one."""

    kind = "read_kv"
    weight = 6
    keeps_free_lists = True
    rules = (
        OUTSIDE_GROUP,
        _FORWARD,
        Rule("a layer is read after it was written", lambda le, e: 0 <= e.layer < _next_layer(le)),
    )
    layer: int

    @classmethod
    def propose(cls, draws: Draws) -> Self | None:
        forward = draws.ledger.forward
        if forward is None or not forward.next_layer:
            return None
        return cls(draws.choices.integer(0, forward.next_layer - 1))

    def perform(self, step: Step) -> None:
        world = step.world
        assert world.forward is not None
        swa = world.contents.swa[self.layer]
        step.read_layer = self.layer
        for span in world.forward.reach(world.config.window if swa else None):
            locs = world.locs(*span)
            step.read_locs += world.mapped(locs) if swa else locs
        if step.read_locs:
            step.rows = step.target.read_kv(self.layer, step.read_locs)

    def adopt(self, step: Step) -> None:
        if step.rows is not None and step.world.contents.swa[self.layer]:
            step.world.saw("window_read")

    def say(self, ledger: Ledger) -> str:
        what = "the window" if ledger.config.layers[self.layer] == SWA else "all positions"
        return f"{_layer_words(ledger, self.layer)}: {what}"


SOURCES = ("batch", "view", "fresh", "padded", "kept", "table")
"""What is translated; see `Translate`."""

_OF_BATCH: Roles = MappingProxyType({"start": Role.POSITION, "stop": Role.END})


def _exists(ledger: Ledger, event: Translate) -> bool:
    if event.source == "batch":
        forward = ledger.forward
        return forward is not None and event.request == 0 and 0 <= event.start < event.stop <= forward.tokens
    return span_exists(ledger, event)


@dataclass(frozen=True)
class Translate(AllocatorEvent):
    """Translate full locs to SWA locs (``translate_loc_from_full_to_swa``).

    Attributes:
        source: ``"batch"``: elements ``[start, stop)`` of the running batch's own tensor (`request`
            is 0 and means nothing); ``"fresh"``: a span of a request in fresh memory; ``"padded"``:
            the same with -1 ("none") appended; ``"view"``: a span in an unused part of the running
            batch's buffer; ``"kept"``: a tensor that the caller keeps, the same one whenever these
            locs are asked for; ``"table"``: two rows in fresh memory, as of a page table, with -1
            appended where the second would be shorter.
    """

    kind = "translate"
    words = MappingProxyType({"source": SOURCES})
    weight = 8
    keeps_free_lists = True
    rules = (
        OUTSIDE_GROUP,
        Rule(f"source is one of {', '.join(SOURCES)}", lambda le, e: e.source in SOURCES),
        Rule("what is translated must exist", _exists),
    )
    source: str
    request: int
    start: int
    stop: int

    @classmethod
    def propose(cls, draws: Draws) -> Self | None:
        forward = draws.ledger.forward
        if forward is not None and draws.choices.chance(90 if forward.broken else 60):
            start, stop = 0, forward.tokens
            if draws.choices.chance(10 if forward.broken else 40):
                start = draws.choices.integer(0, stop - 1)
                stop = draws.choices.integer(start + 1, stop)
            return cls("batch", 0, start, stop)
        request = draws.live()
        if request is None:
            return None
        source = draws.choices.pick(SOURCES[1:])
        if source == "kept":
            return cls.kept(draws, request)
        return cls(source, request, *draws.span(request))

    @classmethod
    def kept(cls, draws: Draws, request: int) -> Self:
        """The same locs again and again, such as those of a shared prefix."""
        return cls("kept", request, 0, min(draws.ledger.length(request), draws.habits.unit))

    def clip(self, ledger: Ledger) -> Translate | None:
        if self.source != "batch":
            clipped: Translate = clipped_span(self, ledger)
            return clipped
        if ledger.forward is None:
            return None
        stop = min(self.stop, ledger.forward.tokens)
        return replace(self, start=min(self.start, stop - 1), stop=stop)

    def padding(self, count: int) -> list[int]:
        """What is appended to `count` locs."""
        return [-1] * (self.source == "padded" or (self.source == "table" and count % 2))

    def perform(self, step: Step) -> None:
        world, target = step.world, step.target
        if self.source == "batch":
            assert world.forward is not None
            step.asked = world.forward.locs[self.start : self.stop]
            step.answers = target.translate_batch(self.start, self.stop)
            if world.forward.changed:
                world.saw("asked_after_change")
            return
        step.asked = world.locs(self.request, self.start, self.stop)
        if self.source == "kept":
            world.ask_kept(step.asked)
        step.asked = [*step.asked, *self.padding(len(step.asked))]
        step.answers = target.translate(step.asked, self.source)

    def say(self, ledger: Ledger) -> str:
        if self.source == "batch":
            assert ledger.forward is not None
            if (self.start, self.stop) == (0, ledger.forward.tokens):
                return "the batch's own locs"
            return f"the batch's own locs, {tokens(self.start, self.stop).replace('token', 'element')}"
        where = {
            "fresh": "locs in fresh memory",
            "padded": "locs in fresh memory, -1 appended",
            "view": "locs in an unused part of the batch's buffer",
            "kept": "locs in one tensor that the caller reuses",
            "table": "locs as two rows of a table",
        }[self.source]
        return f"{span_words(self.request, self.start, self.stop)}; {where}"

    def roles(self) -> Roles:
        return _OF_BATCH if self.source == "batch" else super().roles()


@dataclass(frozen=True)
class EndForward(AllocatorEvent):
    """The running forward is over."""

    kind = "end_forward"
    weight = 4
    always = True
    keeps_free_lists = True
    rules = (Rule("no forward is running", lambda le, e: le.forward is not None),)

    def enter(self, ledger: Ledger) -> None:
        ledger.forward = None

    def perform(self, step: Step) -> None:
        step.target.end_forward()

    def adopt(self, step: Step) -> None:
        step.world.forward = None

    def say(self, ledger: Ledger) -> str:
        return "the forward is over"
