"""The oracles of disaggregated decode: its own, and those of the engine level. The first to fire names it."""

from __future__ import annotations

from ...engine.checks import eviction, locks, owners, refusal, rows, structure, values
from ...engine.step import EngineCheck
from ..step import DisaggCheck
from . import (
    evicted,
    lengths,
    masks,
    over_admission,
    prebuilt,
    queues,
    starvation,
    transfer,
)

__all__ = ["DISAGG_CHECKS"]

DISAGG_CHECKS: tuple[DisaggCheck | EngineCheck, ...] = (
    structure.CHECK,
    queues.CHECK,
    owners.CHECK,
    masks.CHECK,
    transfer.CHECK,
    evicted.CHECK,
    values.CHECK,
    rows.CHECK,
    locks.CHECK,
    over_admission.CHECK,
    starvation.CHECK,
    lengths.CHECK,
    prebuilt.CHECK,
    refusal.CHECK,
    eviction.CHECK,
)
"""All of them, in the order in which they are asked."""
