"""The oracles of speculative decode: its own, and those of the engine level. The first to fire names it."""

from __future__ import annotations

from ...engine.checks import (
    admission,
    eviction,
    graphs,
    locks,
    owners,
    races,
    refusal,
    rows,
    structure,
    values,
)
from ...engine.step import EngineCheck
from ..step import SpecCheck
from . import drafts, keys, leftovers, lengths, reads, window

__all__ = ["SPEC_CHECKS"]

SPEC_CHECKS: tuple[SpecCheck | EngineCheck, ...] = (
    structure.CHECK,
    keys.CHECK,
    admission.CHECK,
    lengths.CHECK,
    owners.CHECK,
    leftovers.CHECK,
    races.CHECK,
    values.CHECK,
    window.CHECK,
    graphs.CHECK,
    rows.CHECK,
    reads.CHECK,
    drafts.CHECK,
    locks.CHECK,
    refusal.CHECK,
    eviction.CHECK,
)
"""All of them, in the order in which they are asked."""
