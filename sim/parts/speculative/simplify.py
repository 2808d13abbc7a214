"""Simpler events and caches of speculative decode: fewer requests, smaller trees, less accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ....models.config import Config
from ...core.event import Event
from ..graphs.simplify import fewer_requests, fewer_tokens
from . import events as se

__all__ = ["SPEC_SIMPLER", "simpler_drafts"]


def simpler_drafts(config: Config) -> Iterator[Config]:
    """Caches whose drafts are smaller: a chain of one token, a shorter or narrower tree, fewer nodes; no bigrams."""
    if "spec" not in config.features:
        return
    steps, topk, nodes = config.spec_steps, config.spec_topk, config.spec_draft_tokens
    for shape in ((1, 1, 2), (steps, 1, steps + 1), (steps - 1, topk, nodes), (steps, topk - 1, nodes)):
        most = 1 + shape[0] * shape[1]
        smaller = (shape[0], shape[1], most if shape[1] == 1 else min(shape[2], most))
        if min(smaller) >= 1 and smaller != (steps, topk, nodes):
            yield _shaped(config, *smaller)
    if topk > 1 and nodes > 2:
        yield _shaped(config, steps, topk, nodes - 1)
    if config.bigram:
        yield replace(config, bigram=False)


def _shaped(config: Config, steps: int, topk: int, nodes: int) -> Config:
    return replace(config, spec_steps=steps, spec_topk=topk, spec_draft_tokens=nodes)


def _tree(event: se.DraftTree) -> Iterator[Event]:
    yield from fewer_tokens(event)
    if event.parents:
        yield replace(event, parents=event.parents[:-1])
    chain = tuple(range(len(event.parents)))
    if event.parents not in (chain, (0,) * len(event.parents)):
        yield replace(event, parents=(0,) * len(event.parents))


def _verify(event: se.TargetVerify) -> Iterator[Event]:
    for i in range(len(event.requests) if len(event.requests) > 1 else 0):
        kept = event.accepted[:i] + event.accepted[i + 1 :] if len(event.accepted) > i else event.accepted
        if kept:
            yield replace(event, requests=event.requests[:i] + event.requests[i + 1 :], accepted=kept)
    if any(event.accepted):
        yield replace(event, accepted=(0,) * len(event.accepted))
        for i, node in enumerate(event.accepted):
            if node:
                yield replace(event, accepted=(*event.accepted[:i], node - 1, *event.accepted[i + 1 :]))


SPEC_SIMPLER: dict[type[Event], Callable[[Any], Iterator[Event]]] = {
    se.PrepareDecode: fewer_requests,
    se.DraftTree: _tree,
    se.TargetVerify: _verify,
    se.Commit: fewer_requests,
}
"""Event type -> simpler versions of an event, the boldest first."""
