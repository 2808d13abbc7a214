"""Reads: within a step, the draft and the verification read the KV of the tokens before theirs, on their own branch."""

from __future__ import annotations

from ....core.divergence import Divergence
from ....targets.base import V_MARK
from ...check import Check
from ..step import SpecStep

__all__ = ["CHECK"]


def _run(step: SpecStep) -> Divergence | None:
    for seen in step.seen:
        values = seen.rows.values
        for at, (key, tag) in enumerate(zip(seen.rows.keys, seen.tags, strict=True)):
            if key != tag or (values is not None and values[at] != tag + V_MARK):
                what = f"{seen.reader} read {step.world.name(key)} at layer {seen.layer}"
                if key == tag:
                    what += " with another value"
                return step.diverges("wrong-content", CHECK.name, f"{what}, expected {step.world.name(tag)}")
    return None


CHECK = Check("reads", _run, order=160)
