"""Simpler caches of speculative decode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ....models.config import Config

__all__ = ["simpler_drafts"]


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
