"""What a scheduler does with requests that decode speculatively, beside the engine level's events.

As there, an event that does not apply is skipped. `Arrive`, `Admit`, `Prefill`, `Checkpoint`, `EvictWindow`,
`Finish`, `Abort`, `Evict` and `Flush` are the engine level's. They may come between any two of these, but under V2
no request leaves between its preparation and its verification; a step that is not committed when its request leaves is
dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ....models.draft_tree import Tree
from ...core.event import Event, events_in
from ..engine.events import EngineEvent, fewer_requests, fewer_tokens
from ..engine.forwards import judges, refuse
from ..engine.step import Written
from .step import SpecStep, extend_draft, may_begin, path_to, prepare, run_draft, speculating, tree_of, verify

__all__ = ["SPEC_EVENTS", "Commit", "DraftTree", "PrepareDecode", "TargetVerify"]


@dataclass(frozen=True)
class PrepareDecode(EngineEvent):
    """V2: running requests evict their windows, and their rows grow to committed + reserve
    (``eagle_prepare_for_decode``)."""

    kind = "prepare_decode"
    requests: tuple[int, ...]

    def play(self, step: SpecStep) -> bool:
        if not step.world.config.spec_ahead:
            return False
        ready = speculating(step, self.requests, may_begin(step))
        if not ready:
            return False
        step.effect = self.changed(requests=tuple(ready))
        prepare(step, ready)
        return True

    def simpler(self) -> Iterator[Event]:
        yield from fewer_requests(self)


@dataclass(frozen=True)
class DraftTree(EngineEvent):
    """The draft proposes these tokens for each of the requests, the bonus first; `parents` are those of the others.

    Under V1 the draft's slots are taken, and the allocator restored, before it (``_draft_preprocess_decode``). The
    tree is the nearest one that the config allows; see `Tree.of`.
    """

    kind = "draft_tree"
    requests: tuple[int, ...]
    tokens: tuple[int, ...]
    parents: tuple[int, ...]

    def play(self, step: SpecStep) -> bool:
        world, config = step.world, step.world.config
        v1 = not config.spec_ahead
        ready = speculating(step, self.requests, may_begin(step) if v1 else lambda request: request.prepared)
        if not ready or not self.tokens:
            return False
        tree = Tree.of(self.tokens, self.parents, config.spec_steps, config.spec_topk, config.spec_draft_tokens)
        step.effect = self.changed(requests=tuple(ready), tokens=tree.tokens, parents=tree.parents[1:])
        if v1 and not prepare(step, ready):
            return True
        for number in ready:
            world.draft(number, world.rooted(number, tree))
        extend_draft(step, ready)
        run_draft(step, ready)
        step.engine.drop_draft(ready)
        return True

    def simpler(self) -> Iterator[Event]:
        yield from fewer_tokens(self)
        if self.parents:
            yield replace(self, parents=self.parents[:-1])
        chain = tuple(range(len(self.parents)))
        if self.parents not in (chain, (0,) * len(self.parents)):
            yield replace(self, parents=(0,) * len(self.parents))


@dataclass(frozen=True)
class TargetVerify(EngineEvent):
    """The target computes what was drafted; of each request the path to its node in `accepted` is accepted. A node that
    is not there counts as the last one; nodes are used again from the first where there are too few."""

    kind = "target_verify"
    requests: tuple[int, ...]
    accepted: tuple[int, ...]

    def play(self, step: SpecStep) -> bool:
        world = step.world
        ready = speculating(step, self.requests, lambda request: request.tree is not None)
        if not ready or not self.accepted:
            return False
        wanted = {number: self.accepted[at % len(self.accepted)] for at, number in enumerate(self.requests)}
        paths = {number: path_to(world.speculating(number), wanted[number]) for number in ready}
        step.effect = self.changed(requests=tuple(ready), accepted=tuple(path[-1] for path in paths.values()))
        nodes = world.config.spec_draft_tokens
        spans = [Written(it, (start := world.speculating(it).computed), start + nodes) for it in ready]
        judged = judges(step)
        if not step.engine.begin_verify(ready):
            refuse(step, spans, judged)
            return True
        verify(step, spans)
        tokens = [tree_of(world.speculating(number)).along(path) for number, path in paths.items()]
        step.engine.accept(ready, list(paths.values()), tokens)
        for number, path in paths.items():
            world.accept(number, path)
        step.accepted = paths
        step.written = [Written(span.request, span.start, span.start + len(paths[span.request])) for span in spans]
        extend_draft(step, ready)
        return True

    def simpler(self) -> Iterator[Event]:
        for i in range(len(self.requests) if len(self.requests) > 1 else 0):
            kept = self.accepted[:i] + self.accepted[i + 1 :] if len(self.accepted) > i else self.accepted
            if kept:
                yield replace(self, requests=self.requests[:i] + self.requests[i + 1 :], accepted=kept)
        if any(self.accepted):
            yield replace(self, accepted=(0,) * len(self.accepted))
            for i, node in enumerate(self.accepted):
                if node:
                    yield replace(self, accepted=(*self.accepted[:i], node - 1, *self.accepted[i + 1 :]))


@dataclass(frozen=True)
class Commit(EngineEvent):
    """V2: the scheduler learns what the oldest verification accepted, with overlap after the next preparation."""

    kind = "commit"
    requests: tuple[int, ...]

    def play(self, step: SpecStep) -> bool:
        ready = speculating(step, self.requests, lambda request: bool(request.uncommitted))
        if not ready:
            return False
        step.effect = self.changed(requests=tuple(ready))
        step.engine.commit(ready)
        for number in ready:
            step.world.commit(number)
        return True

    def simpler(self) -> Iterator[Event]:
        yield from fewer_requests(self)


SPEC_EVENTS = events_in(__name__, EngineEvent)
"""Every event type of its own."""
