"""The two models' forwards: through a captured graph where one holds the batch, layer by layer elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ...targets.speculative import SpecGraphTarget
from ..engine.step import Written
from ..graphs.runs import note_run
from .step import SpecStep

__all__ = ["draft_forward", "target_forward"]

_RUNNER = "speculative"


def draft_forward(step: SpecStep, locs: list[int], prefixes: Sequence[int]) -> None:
    """The draft writes the KV of these prefixes at these full locs, in all layers."""
    tags = _tags(step, prefixes)
    found = step.world.graphs.fitting(_RUNNER, len(locs))
    if found is not None:
        cast(SpecGraphTarget, step.target).replay_draft(locs, tags)
        note_run(step, "draft", *found, locs)
        return
    for layer, row in enumerate(tags):
        step.engine.write_draft(locs, layer, row)


def target_forward(step: SpecStep, spans: list[Written], prefixes: Sequence[int]) -> None:
    """The target writes the KV of these prefixes at the locs of these spans, in all layers."""
    tags = _tags(step, prefixes)
    found = step.world.graphs.fitting(_RUNNER, len(prefixes))
    if found is not None:
        rows = step.target.raw_requests()
        locs = [loc for number, start, stop in spans for loc in rows[number].row[start:stop]]
        cast(SpecGraphTarget, step.target).replay(_RUNNER, list(spans), tags)
        note_run(step, _RUNNER, *found, locs)
        return
    for layer, row in enumerate(tags):
        step.target.write(list(spans), layer, row)


def _tags(step: SpecStep, prefixes: Sequence[int]) -> list[list[int]]:
    """For each layer a tag a token."""
    return [[step.world.tags.tag(it, layer) for it in prefixes] for layer in range(len(step.world.config.layers))]
