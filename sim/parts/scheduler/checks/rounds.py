"""Rounds: a prefill batch is no longer than a chunk, has each request once, takes whole pages from the cache, and
computes a token of each; a decode round leaves out no request."""

from __future__ import annotations

from ....core.divergence import Divergence
from ...check import Check
from ..step import SchedulerStep

__all__ = ["CHECK"]


def _run(step: SchedulerStep) -> Divergence | None:
    return None if step.fault is None else step.diverges(step.fault.kind, CHECK.name, step.fault.what)


CHECK = Check("rounds", _run, order=15)
"""Asked before every other check: the world did not take over a faulty round."""
